"""Figures: drawn with matplotlib, kept as SVG for the page, as PNG, and as the numbers they show."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from selfplay.reporting.runs import Run

COLOURS = ("#3b6fb6", "#d1662c", "#3d9467", "#8a5fb3", "#b8862d", "#c0496b", "#5b8f9c", "#7a7a7a")
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "path",
    "svg.hashsalt": "selfplay",  # one figure, one text
}


@dataclass(frozen=True)
class Figure:
    """`name` is that of its files, `data` the numbers it shows."""

    name: str
    title: str
    caption: str
    svg: str
    png: bytes
    data: pd.DataFrame
    wide: bool = False  # takes the page's whole width


def canvas(panels: int = 1, height: float = 2.6) -> tuple[Drawing, list[Axes]]:
    """An empty drawing with its axes side by side, three in a row; `height` is a row's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        rows, columns = -(-panels // 3), min(panels, 3)
        size = 3.6 * max(columns, 1.6), height * rows
        drawing, grid = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    axes = list(grid.flat)
    for unused in axes[panels:]:
        unused.remove()
    return drawing, axes[:panels]


def finish(drawing: Drawing, name: str, title: str, caption: str, data: pd.DataFrame) -> Figure:
    """The drawing as a figure; it is closed."""
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        drawing.tight_layout()
        text, picture = io.StringIO(), io.BytesIO()
        drawing.savefig(text, format="svg", metadata={"Date": None}, transparent=True, bbox_inches="tight")
        drawing.savefig(
            picture, format="png", dpi=150, facecolor="white", metadata={"Software": None}, bbox_inches="tight"
        )
    pyplot.close(drawing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # Several figures share a page: the names inside one must not be another's.
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
    return Figure(name, title, caption, svg, picture.getvalue(), data, wide=len(drawing.axes) > 2)


def lines(
    name: str,
    title: str,
    caption: str,
    panels: Mapping[str, Mapping[str, Sequence[pd.Series]]],
    x: str = "step",
    limits: Mapping[str, tuple[float | None, float | None]] | None = None,
) -> Figure | None:
    """Curves: panel -> curve -> its seeds' series. Of several seeds the mean is drawn in a band from low to high.

    None where there is nothing to draw.
    """
    panels = {
        panel: {curve: [s.dropna() for s in seeds if s.notna().any()] for curve, seeds in curves.items()}
        for panel, curves in panels.items()
    }
    panels = {panel: {c: s for c, s in curves.items() if s} for panel, curves in panels.items()}
    panels = {panel: curves for panel, curves in panels.items() if curves}
    if not panels:
        return None
    drawing, axes = canvas(len(panels))
    tables = []
    for ax, (panel, curves) in zip(axes, panels.items(), strict=True):
        for place, (curve, seeds) in enumerate(curves.items()):
            table = pd.concat(seeds, axis=1)
            mean, colour = table.mean(axis=1), COLOURS[place % len(COLOURS)]
            ax.plot(mean.index, mean.values, color=colour, label=curve, lw=1.6, marker="." if len(mean) < 12 else None)
            if table.shape[1] > 1:
                ax.fill_between(mean.index, table.min(axis=1), table.max(axis=1), color=colour, alpha=0.18, lw=0)
            tables.append(_table_of(panel, curve, table, x))
        ax.set(xlabel=x, title=panel)
        ax.set_ylim(*(limits or {}).get(panel, (None, None)))
    _legends(drawing, axes)
    return finish(drawing, name, title, caption, pd.concat(tables, ignore_index=True))


def _legends(drawing: Drawing, axes: Sequence[Axes]) -> None:
    """One below all panels where they have the same curves, else one in each that has several."""
    named = [ax.get_legend_handles_labels() for ax in axes]
    if len(named[0][1]) > 1 and all(labels == named[0][1] for _, labels in named):
        drawing.legend(*named[0], loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=4)
        return
    for ax, (_, labels) in zip(axes, named, strict=True):
        if len(labels) > 1:
            ax.legend()


def _table_of(panel: str, curve: str, table: pd.DataFrame, x: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "panel": panel,
            "curve": curve,
            x: table.index,
            "mean": table.mean(axis=1).values,
            "low": table.min(axis=1).values,
            "high": table.max(axis=1).values,
            "seeds": table.notna().sum(axis=1).values,
        }
    )


def by_arm(groups: Mapping[str, Sequence[Run]], column: str, phase: str = "") -> dict[str, list[pd.Series]]:
    """A column of the metrics: arm -> one series a seed, by step."""
    found: dict[str, list[pd.Series]] = {}
    for arm, runs in groups.items():
        series = []
        for run in runs:
            table = run.steps(phase) if phase else run.metrics
            if column in table:
                series.append(pd.Series(pd.to_numeric(table[column]).values, index=range(1, len(table) + 1)))
        found[arm] = series
    return found


def terms(
    groups: Mapping[str, Sequence[Run]], title: str, columns: Mapping[str, str], phase: str = ""
) -> dict[str, dict[str, list[pd.Series]]]:
    """Panels of related columns (label -> column): one with a curve each for a single arm, else one for each label."""
    found = {label: by_arm(groups, column, phase) for label, column in columns.items()}
    if len(groups) > 1:
        return found
    (arm,) = groups
    return {title: {label: curves[arm] for label, curves in found.items()}}


def bars(
    name: str,
    title: str,
    caption: str,
    rows: Sequence[tuple[str, str, float, tuple[float, float] | None]],
    label: str = "%",
) -> Figure | None:
    """Bars in groups: (group, bar, value, interval). None where there is nothing to draw."""
    if not rows:
        return None
    groups, kinds = list(dict.fromkeys(r[0] for r in rows)), list(dict.fromkeys(r[1] for r in rows))
    drawing, (ax,) = canvas(1, max(1.4, 0.28 * len(rows) + 0.9))
    places, ticks = [], []
    place = 0.0
    for group in groups:
        mine = [row for row in rows if row[0] == group]
        ticks.append(place + (len(mine) - 1) / 2)
        for _, kind, value, interval in mine:
            colour = COLOURS[kinds.index(kind) % len(COLOURS)]
            error = [[value - interval[0]], [interval[1] - value]] if interval else None
            ax.barh(place, value, 0.8, color=colour, xerr=error, ecolor="#444", label=kind, error_kw={"lw": 1})
            ax.text(interval[1] if interval else value, place, f" {value:.3g}", va="center", fontsize=8)
            places.append(place)
            place += 1
        place += 0.6
    alone = len(groups) == 1  # then the bars themselves are named
    ax.set_yticks(places if alone else ticks, [row[1] for row in rows] if alone else groups)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.15)
    if len(kinds) > 1 and not alone:
        handles, names = ax.get_legend_handles_labels()
        unique = dict(zip(names, handles, strict=True))
        ax.legend(unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
    data = pd.DataFrame(
        [
            {"group": g, "bar": k, "value": v, "low": i[0] if i else None, "high": i[1] if i else None}
            for g, k, v, i in rows
        ]
    )
    return finish(drawing, name, title, caption, data)


def stacked(name: str, title: str, caption: str, table: pd.DataFrame, label: str, x: str = "step") -> Figure | None:
    """Areas on top of each other: a column each, the index along the x axis. None where there is nothing to draw."""
    table = table.fillna(0.0)
    table = table.loc[:, table.sum() > 0]
    if table.empty or not len(table.columns):
        return None
    shown = table[table.sum().sort_values(ascending=False).index]
    if shown.shape[1] > len(COLOURS):
        rest = shown.iloc[:, len(COLOURS) - 1 :].sum(axis=1)
        shown = pd.concat([shown.iloc[:, : len(COLOURS) - 1], rest.rename("other")], axis=1)
    drawing, (ax,) = canvas(1)
    if len(shown) > 1:
        ax.stackplot(shown.index, shown.T.values, labels=list(shown.columns), colors=COLOURS, alpha=0.85)
    else:
        floor = 0.0
        for place, column in enumerate(shown.columns):
            ax.bar([str(shown.index[0])], shown[column].values, bottom=floor, color=COLOURS[place], label=column)
            floor += float(shown[column].iloc[0])
    ax.set(xlabel=x, ylabel=label)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    data = shown.rename_axis(x).reset_index()
    return finish(drawing, name, title, caption, data)


def present(*figures: Figure | None) -> list[Figure]:
    """Those that there are."""
    return [figure for figure in figures if figure is not None]


def nested(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A column of objects (name -> number) as a table of its own, by step."""
    if column not in table:
        return pd.DataFrame()
    rows: list[dict[str, Any]] = [value if isinstance(value, dict) else {} for value in table[column]]
    return pd.DataFrame(rows, index=range(1, len(table) + 1))

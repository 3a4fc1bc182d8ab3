"""`python -m selfplay.report RUN... [--out FOLDER]`: what runs did, as one page that opens anywhere.

Of one run it goes into the run's own `report/`; of several, which are compared, into `report/` here, or into `--out`.
Beside `index.html` it writes every figure as PNG and its numbers as CSV.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selfplay.reporting.figures import Figure
    from selfplay.reporting.page import Section
    from selfplay.reporting.runs import Run

SAMPLES = 12  # rollouts that are shown of a run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 2 for a folder that is no run."""
    parser = argparse.ArgumentParser(prog="python -m selfplay.report", description="A page about runs.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run directory, or a folder of some")
    parser.add_argument("--out", type=Path, help="where to write; default: the run's own report/, or report/ here")
    arguments = parser.parse_args(argv)
    from selfplay.reporting.runs import NoRun, load

    started = time.monotonic()
    try:
        runs = [load(path) for path in found(arguments.runs)]
    except NoRun as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = arguments.out or (runs[0].path / "report" if len(runs) == 1 else Path("report"))
    figures = write(runs, out)
    print(f"{out / 'index.html'}: {len(runs)} runs, {figures} figures, {time.monotonic() - started:.0f} s")
    return 0


def found(paths: Sequence[Path]) -> list[Path]:
    """The run directories that are meant: a folder which is none stands for those below it."""
    out: list[Path] = []
    for path in paths:
        below = sorted(file.parent for file in path.rglob("run.json")) if not (path / "run.json").is_file() else []
        out += below or [path]
    return list(dict.fromkeys(path.absolute() for path in out))


def write(runs: Sequence[Run], out: Path) -> int:
    """Write the page and the figures' files into `out`; how many figures there are."""
    from selfplay.reporting.page import page
    from selfplay.runs.files import write_atomic

    sections = [section for section in sections_of(runs) if section.body or section.figures]
    out.mkdir(parents=True, exist_ok=True)
    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    figures = [figure for section in sections for figure in section.figures]
    for figure in figures:
        (folder / f"{figure.name}.png").write_bytes(figure.png)
        write_atomic(folder / f"{figure.name}.csv", figure.data.to_csv(index=False))
    title = runs[0].label if len(runs) == 1 else f"{len(runs)} runs compared"
    subtitle = str(runs[0].path.name) if len(runs) == 1 else ", ".join(run.path.name for run in runs)
    write_atomic(out / "index.html", page(title, subtitle, sections))
    return len(figures)


def sections_of(runs: Sequence[Run]) -> list[Section]:
    """Everything that the page says, in order."""
    from selfplay.reporting import common, dag
    from selfplay.reporting.page import Section, table
    from selfplay.reporting.runs import arms, differences

    groups = arms(runs)
    sections = [Section("Result", table(common.summary_table(runs)), common.result_figures(groups))]
    systems = list(dict.fromkeys(run.system for run in runs))
    for system in systems:
        mine = {arm: group for arm, group in groups.items() if group[0].system == system}
        name = "Training" if len(systems) == 1 else system
        sections.append(Section(name, "", _renamed(system_figures(system, mine), system if len(systems) > 1 else "")))
    if len(runs) == 1:
        sections = [replace(one, figures=[_untitled(figure, runs[0]) for figure in one.figures]) for one in sections]
    if len(runs) == 1:
        sections += [Section("Evolved tasks", _evolved(runs[0])), Section("Tasks of the pool", _pool(runs[0]))]
    for run in runs:
        if points := dag.points_of(run):
            name = "Curriculum" if len(runs) == 1 else f"Curriculum of {run.label}"
            note = "Depth downwards; a dashed line leads to a second parent; red is never solved, green always."
            drawn = f'<p class="note">{note}</p><div class="scroll">{dag.drawing(points)}</div>'
            sections.append(
                Section(
                    name,
                    drawn
                    + (gathered(f"{len(points)} specifications", [dag.listing(points)]) if len(runs) == 1 else ""),
                )
            )
    sections.append(Section("Engine", "", common.engine_figures(groups)))
    if len(runs) == 1:
        sections.append(Section("Rollouts", _rollouts(runs[0])))
        settings = (runs[0].path / "config.yaml").read_text(encoding="utf-8")
        from selfplay.reporting.page import folded

        sections.append(Section("Settings", folded("config.yaml", [("as the run resolved it", settings)])))
    else:
        sections.append(Section("Settings that differ", table(differences(runs), index=True)))
    return sections


def system_figures(system: str, groups: Mapping[str, Sequence[Run]]) -> list[Figure]:
    """The figures of one system's runs; none for a system that has no module in `reporting`."""
    if find_spec(f"selfplay.reporting.{system}") is None:
        return []
    figures: list[Figure] = import_module(f"selfplay.reporting.{system}").figures(groups)
    return figures


def _renamed(figures: Sequence[Figure], prefix: str) -> list[Figure]:
    """Two systems on a page may have figures of one name."""
    return [replace(figure, name=f"{prefix}-{figure.name}") if prefix else figure for figure in figures]


def _untitled(figure: Figure, run: Run) -> Figure:
    """Without the run's name in its title, where there is one run alone."""
    return replace(figure, title=figure.title.removesuffix(f" ({run.label})"))


def _rollouts(run: Run) -> str:
    """Samples of the newest step that was written: what was asked, answered, and said of it."""
    from selfplay.reporting.page import folded

    files = sorted((run.path / "rollouts").glob("step_*.jsonl"))
    if not files:
        return ""
    rows = run.jsonl(str(files[-1].relative_to(run.path)))
    by_kind: dict[tuple[str, str], list[dict[str, object]]] = {}
    for row in rows:
        by_kind.setdefault((str(row["role"]), str(row["verdict"])), []).append(row)
    chosen: list[dict[str, object]] = []
    while len(chosen) < min(SAMPLES, len(rows)):  # by turns, so that every verdict is seen
        for kind in by_kind.values():
            if kind and len(chosen) < SAMPLES:
                chosen.append(kind.pop(0))
    entries = [
        folded(
            f"{row['role']}: {row['verdict']}, reward {float(str(row['reward'])):.2f}",
            [("prompt", row["prompt"]), ("response", row["response"]), ("detail", row.get("detail") or "-")],
        )
        for row in chosen
    ]
    return f'<p class="note">{escape_name(files[-1])}</p>' + "".join(entries)


def escape_name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _evolved(run: Run) -> str:
    """BenchEvolver's accepted tasks with their lineage."""
    from selfplay.benchmarks import livecodebench
    from selfplay.reporting.page import folded

    entries = []
    for path in sorted((run.path / "rounds").glob("*/evolved.jsonl")):
        for record in run.jsonl(str(path.relative_to(run.path))):
            task = livecodebench.task_of(record)
            lineage = task.source["lineage"]
            head = (
                f"{task.task_id}: {lineage['family']}; accuracy {lineage['accuracy_of_seed']:.2f} to"
                f" {lineage['accuracy']:.2f}"
            )
            parts = [("parent", lineage["parent"]), ("idea", lineage["idea"])]
            parts += [("statement", task.statement), ("reference", task.reference)]
            entries.append(folded(head, parts))
    return gathered(f"{len(entries)} tasks", entries[:200])


def gathered(summary: str, entries: Sequence[str]) -> str:
    """Many entries behind one; "" for none."""
    from html import escape

    return f"<details><summary>{escape(summary)}</summary>{''.join(entries)}</details>" if entries else ""


def _pool(run: Run) -> str:
    """AnchorLoop's pools: the manifest of each iteration, and its first tasks."""
    from selfplay.reporting.page import folded
    from selfplay.runs.files import to_json

    entries = []
    for path in sorted((run.path / "pool").glob("manifest_*.json")):
        number = path.stem.removeprefix("manifest_")
        tasks = run.jsonl(f"pool/tasks_{number}.jsonl")
        manifest = to_json(run.json(str(path.relative_to(run.path))), indent=1)
        shown = "\n".join(str(task["question"]) for task in tasks[:20])
        entries.append(
            folded(f"iteration {int(number)}: {len(tasks)} tasks", [("manifest", manifest), ("tasks", shown)])
        )
    return "".join(entries)


if __name__ == "__main__":
    sys.exit(main())

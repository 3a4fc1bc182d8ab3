"""ANCORA's curriculum, drawn: a point a specification, under its parents, and a list to read them in."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from html import escape
from pathlib import Path

from selfplay.curriculum.node import Node
from selfplay.curriculum.persistence import MANIFEST, load_snapshot
from selfplay.reporting.runs import Run

SHOWN = 400  # nodes that are drawn and listed; the oldest ones of a larger pool
ROW, RADIUS, WIDTH = 64, 5, 1000


@dataclass(frozen=True)
class Point:
    """A node and the pass rate of the attempts at it, None where there were none."""

    node: Node
    pass_rate: float | None


def points_of(run: Run) -> list[Point]:
    """The curriculum of the newest checkpoint, oldest node first; [] for runs without one."""
    folders = sorted(run.path.glob(f"checkpoints/step_*/pool/{MANIFEST}"))
    if not folders:
        return []
    return read_pool(folders[-1].parent)


def read_pool(folder: Path) -> list[Point]:
    """The nodes of a saved curriculum."""
    snapshot = load_snapshot(folder)
    rates, counts = snapshot.arrays["pass_sum"], snapshot.arrays["pass_weight"]
    return [
        Point(node, float(rates[row] / counts[row]) if counts[row] > 0 else None)
        for row, node in enumerate(snapshot.nodes)
        if node is not None
    ]


def drawing(points: list[Point]) -> str:
    """The DAG as SVG: depth downwards, families side by side; a point leads to its entry in `listing`."""
    shown = points[:SHOWN]
    places = _places(shown)
    depth = max((point.node.depth for point in shown), default=0)
    height = ROW * (depth + 1)
    parts = [f'<svg class="dag" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="curriculum">']
    for point in shown:
        x, y = places[point.node.id]
        for place, parent in enumerate(point.node.parents):
            if parent in places:
                px, py = places[parent]
                dashed = ' stroke-dasharray="3 3"' if place else ""
                parts.append(f'<path d="M{px:.0f} {py}C{px:.0f} {py + 32} {x:.0f} {y - 32} {x:.0f} {y}"{dashed}/>')
    for point in shown:
        x, y = places[point.node.id]
        title = escape(f"{point.node.family}, step {point.node.born}, pass rate {_rate(point)}")
        parts.append(
            f'<a href="#node-{point.node.id}"><circle cx="{x:.0f}" cy="{y}" r="{RADIUS}" fill="{_colour(point)}">'
            f"<title>{title}</title></circle></a>"
        )
    return "".join([*parts, "</svg>"])


def listing(points: list[Point]) -> str:
    """An entry a node: specification, parents, pass rate, first proof."""
    entries = []
    for point in points[:SHOWN]:
        node = point.node
        parents = ", ".join(f'<a href="#node-{parent}">{parent[:8]}</a>' for parent in node.parents) or "a root"
        proof = f"<h5>First verified answer</h5><pre>{escape(node.answer)}</pre>" if node.answer else ""
        entries.append(
            f'<details id="node-{node.id}"><summary><code>{node.id[:8]}</code> {escape(node.family)},'
            f" depth {node.depth}, step {node.born}, pass rate {_rate(point)}</summary><p>Parents: {parents}</p>"
            f"<pre>{escape(node.text)}</pre>{proof}</details>"
        )
    more = len(points) - SHOWN
    return "\n".join(entries) + (f"<p>and {more} more</p>" if more > 0 else "")


def _places(points: list[Point]) -> dict[str, tuple[float, int]]:
    """x and y of every node: rows by depth; within a row children stand near their first parent's place."""
    rows: dict[int, list[Node]] = defaultdict(list)
    for point in points:
        rows[point.node.depth].append(point.node)
    places: dict[str, tuple[float, int]] = {}
    for depth in sorted(rows):
        row = rows[depth]
        row.sort(key=lambda node: (places.get(node.parents[0], (0.0, 0))[0] if node.parents else 0.0, node.family))
        for i, node in enumerate(row):
            places[node.id] = (WIDTH * (i + 0.5) / len(row), ROW * depth + ROW // 2)
    return places


def _rate(point: Point) -> str:
    return "-" if point.pass_rate is None else f"{point.pass_rate:.2f}"


def _colour(point: Point) -> str:
    """Red for never solved, over yellow, to green for always."""
    if point.pass_rate is None:
        return "#999"
    return f"hsl({120 * point.pass_rate:.0f} 55% 45%)"

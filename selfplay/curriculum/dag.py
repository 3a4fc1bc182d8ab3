"""The curriculum DAG: nodes, edges and the values that selection reads (ANCORA sections 4.4, G.3, G.8, G.9, G.12).

A node is addressed by its row, an index that never changes while the process lives; a child's row is larger than its
parents' rows, hence the graph has no cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from selfplay.curriculum.config import CurriculumConfig
from selfplay.curriculum.node import Node
from selfplay.curriculum.statistics import Floats, NodeStatistics, Rows


class Edges:
    """Outgoing edges of one node, in order of insertion: child rows [M] and discounted visits n_edge [M]."""

    __slots__ = ("_children", "_touched", "_visits", "size")

    def __init__(self) -> None:
        self.size = 0
        self._children: NDArray[np.int64] = np.zeros(4, dtype=np.int64)
        self._visits: Floats = np.zeros(4)
        self._touched: NDArray[np.int64] = np.zeros(4, dtype=np.int64)

    @property
    def children(self) -> Rows:
        return self._children[: self.size]

    @property
    def stored(self) -> tuple[Floats, Rows]:
        """Visits as stored, and the step of which they are."""
        return self._visits[: self.size], self._touched[: self.size]

    def add(self, child: int, visits: float = 0.0, touched: int = 0) -> None:
        if self.size == len(self._children):
            self._children = np.concatenate([self._children, np.zeros_like(self._children)])
            self._visits = np.concatenate([self._visits, np.zeros_like(self._visits)])
            self._touched = np.concatenate([self._touched, np.zeros_like(self._touched)])
        self._children[self.size], self._visits[self.size], self._touched[self.size] = child, visits, touched
        self.size += 1

    def remove(self, child: int) -> None:
        keep = self.children != child
        kept = int(keep.sum())
        for name in ("_children", "_visits", "_touched"):
            column = getattr(self, name)
            column[:kept] = column[: self.size][keep]
        self.size = kept

    def visits(self, decay: float, step: int) -> Floats:
        return self._visits[: self.size] * decay ** (step - self._touched[: self.size])

    def count(self, child: int, decay: float, step: int) -> None:
        """One more descent along the edge to `child`; no such edge (pruned since the selection) counts nothing."""
        for at in np.flatnonzero(self.children == child):
            self._visits[at] = self._visits[at] * decay ** int(step - self._touched[at]) + 1.0
            self._touched[at] = step


class Dag:
    """Nodes with their statistics, edges and kin."""

    def __init__(self, config: CurriculumConfig) -> None:
        config.check()
        self.config = config
        self.statistics = NodeStatistics(config.ucb_stat_decay, config.pass_rate_decay)
        self.nodes: list[Node | None] = []  # by row; None once pruned
        self.row_of: dict[str, int] = {}
        self.roots: list[int] = []
        self.edges: dict[int, Edges] = {}
        self.kin: Rows = np.full((64, config.kin_neighbours), -1, dtype=np.int64)  # rows of MinHash neighbours, or -1

    def __len__(self) -> int:
        return len(self.row_of)

    def node(self, row: int) -> Node:
        node = self.nodes[row]
        assert node is not None, f"row {row} was pruned"
        return node

    def live_rows(self) -> Rows:
        return np.flatnonzero(self.statistics.alive[: self.statistics.size])

    def add(self, node: Node) -> int:
        """Insert a node whose parents are members; returns its row. Edges from all of its parents are made."""
        assert node.id not in self.row_of, f"node {node.id} is a member already"
        row = self.statistics.add()
        self.nodes.append(node)
        self.row_of[node.id] = row
        if row == len(self.kin):
            self.kin = np.concatenate([self.kin, np.full_like(self.kin, -1)])
        if node.is_root:
            self.roots.append(row)
        for parent in node.parents:
            self.edges.setdefault(self.row_of[parent], Edges()).add(row, touched=self.statistics.step)
        return row

    def link_kin(self, row: int, neighbours: Sequence[int] | Rows) -> None:
        """Make `row` and its MinHash neighbours kin of each other, as far as their places reach."""
        self.kin[row, : len(neighbours)] = neighbours
        for other in neighbours:
            free = np.flatnonzero(self.kin[other] < 0)
            if len(free):
                self.kin[other, free[0]] = row

    def ancestry(self, row: int) -> tuple[int, ...]:
        """Rows from a root to `row` along first parents."""
        path = [row]
        while self.node(path[-1]).parents:
            path.append(self.row_of[self.node(path[-1]).parents[0]])
        return tuple(reversed(path))

    def back_up(self, path: Sequence[int], reward: float, weight: float = 1.0) -> None:
        """Credit the last row of `path` and its ancestors on it (equation 31).

        The node gets n += w, s += w R; an ancestor `d` levels up gets w = weight * backup_discount^d in the place of
        `weight`, for at most `depth_cap` levels. The weight counts in n and in s, so that means stay within [0, 1].
        """
        for distance, row in enumerate(reversed(path)):
            if distance > self.config.depth_cap:
                break
            self.statistics.add_visit(row, weight * self.config.backup_discount**distance, reward)

    def values(self, rows: Rows) -> Floats:
        """Value [M] of each node: ratchet or s / n where visited, else the cold-start chain (section G.12, item 3)."""
        stats = self.statistics
        values = stats.ratchet[rows] if self.config.exploit == "ratchet" else stats.means(rows)
        unvisited = stats.visits[rows] == 0
        rates = stats.pass_rates(rows)
        values[unvisited] = np.where(rates > 0, rates, self._mean_pass_rate())[unvisited]
        for at in np.flatnonzero(unvisited & (rates == 0)):  # in practice fresh roots: all others have been solved
            values[at] = self.cold_start_value(int(rows[at]))
        return values

    def cold_start_value(self, row: int) -> float:
        """Own pass rate, else the mean of the children's, else of all positive ones, else a constant.

        As in the paper a rate of 0 counts as unknown.
        """
        stats = self.statistics
        if stats.pass_sum[row] > 0:
            return float(stats.pass_sum[row] / stats.pass_weight[row])
        if row in self.edges:
            rates = stats.pass_rates(self.edges[row].children)
            if (rates > 0).any():
                return float(rates[rates > 0].mean())
        return self._mean_pass_rate()

    def difficulty(self, row: int) -> float:
        """The pass rate by which a node is judged: its own once observed (0 counts), else the cold-start chain."""
        stats = self.statistics
        if stats.pass_weight[row] > 0:
            return float(stats.pass_sum[row] / stats.pass_weight[row])
        return self.cold_start_value(row)

    def _mean_pass_rate(self) -> float:
        """Mean of all positive pass rates, or the constant of a pool without any."""
        stats = self.statistics
        return stats.positive_sum / stats.positive_count if stats.positive_count else self.config.cold_start_value

    def kinship(self, rows: Rows) -> Floats:
        """Mean value [M] of each node's MinHash neighbours; 0 without neighbours (section G.12, item 4)."""
        kin = self.kin[rows]
        known = (kin >= 0) & self.statistics.alive[kin]
        neighbours = np.unique(kin[known])
        if len(neighbours) == 0:
            return np.zeros(len(rows))
        values = np.zeros(kin.shape)
        values[known] = self.values(neighbours)[np.searchsorted(neighbours, kin[known])]
        means: Floats = np.divide(values.sum(1), known.sum(1), out=np.zeros(len(rows)), where=known.any(1))
        return means

    def unsolvable(self) -> Rows:
        """Non-root rows with enough discounted visits and attempts but no pass (`prune_unsolvable`, section G.9)."""
        stats, size = self.statistics, self.statistics.size
        visits = stats.visits[:size] * stats.decay ** (stats.step - stats.touched[:size])
        failed = (stats.pass_weight[:size] > 0) & (stats.pass_sum[:size] == 0)
        rows = np.flatnonzero(stats.alive[:size] & failed & (visits >= self.config.prune_min_visits))
        return np.array([r for r in rows if not self.node(int(r)).is_root], dtype=np.int64)

    def remove(self, row: int) -> None:
        """Take out a non-root node; children that it leaves without a parent go to its own parents."""
        node = self.node(row)
        assert not node.is_root, "roots are never removed"
        parents = [self.row_of[p] for p in node.parents]
        for parent in parents:
            self.edges[parent].remove(row)
        for child in self.edges.pop(row, Edges()).children.tolist():
            self._replace_parent(child, node)
        self.statistics.remove(row)
        self.nodes[row] = None
        del self.row_of[node.id]

    def _replace_parent(self, child_row: int, removed: Node) -> None:
        child = self.node(child_row)
        rest = tuple(p for p in child.parents if p != removed.id)
        if not rest:
            rest = removed.parents
            for parent in rest:
                self.edges.setdefault(self.row_of[parent], Edges()).add(child_row, touched=self.statistics.step)
        child.parents = rest

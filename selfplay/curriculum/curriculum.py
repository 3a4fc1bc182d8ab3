"""The curriculum as the trainer sees it (ANCORA section 4.4).

    seeds = curriculum.select(B, N)                    # step 1 of the loop
    curriculum.record(seed, rewards, pass_rates)       # after the rewards: one visit per seed
    curriculum.admit(candidate)                        # step 7: solved and novel candidates become nodes
    curriculum.step_end()                              # decay, ability, clean-up
    curriculum.save(folder)

Within a step, `select` reads statistics that only `record`, `admit` and `step_end` change; seeds are recorded and their
candidates admitted before the step ends. All randomness comes from one generator that is saved with the pool, so equal
calls give equal pools, and a reloaded pool goes on as if it had never stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from selfplay.curriculum.admission import admit, insert, parent_rows
from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.dag import Dag
from selfplay.curriculum.node import Admission, Candidate, Node, Outcome, Seed, SeedKind, node_id
from selfplay.curriculum.novelty import NoveltyGate
from selfplay.curriculum.packing import close_pairs
from selfplay.curriculum.persistence import load_snapshot, save_snapshot
from selfplay.curriculum.roots import Root
from selfplay.curriculum.snapshot import restore, take
from selfplay.curriculum.text import structural_form
from selfplay.curriculum.ucb import BatchSelector


class Curriculum:
    """The DAG, its novelty gate, the solver's ability and the random generator."""

    def __init__(
        self,
        roots: Sequence[Root],
        config: CurriculumConfig,
        novelty: NoveltyConfig,
        seed: int,
        normalise: Callable[[str], str] = structural_form,
    ) -> None:
        """A pool of roots alone.

        Roots are taken as curated: they are never removed and may resemble each other (see `packing_violations`).

        Raises:
            ValueError: a setting out of range, no root, or two roots of one text.
        """
        if not roots:
            raise ValueError("a curriculum needs at least one root")
        self.dag = Dag(config)
        self.gate = NoveltyGate(novelty, normalise)
        self.rng = np.random.default_rng(seed)
        self.ability: float | None = None  # a-hat; None until a pass rate was observed
        self.rates_sum, self.rates_count = 0.0, 0  # pass rates seen in this step
        self.admitted_now: list[int] = []  # rows admitted in this step
        self.outcomes: Counter[str] = Counter()  # of admissions, over the whole life of the pool
        for root in roots:
            node = Node(node_id(root.spec), root.spec, root.answer, (), root.family, depth=0, born=0)
            if node.id in self.dag.row_of:
                raise ValueError(f"root {root.name!r} has the text of another root")
            insert(self.dag, self.gate, node, self.gate.near(root.spec))

    def __len__(self) -> int:
        return len(self.dag)

    def __contains__(self, identifier: str) -> bool:
        return identifier in self.dag.row_of

    @property
    def step(self) -> int:
        return self.dag.statistics.step

    def node(self, identifier: str) -> Node:
        """The node of this id. Raises KeyError when it is no member."""
        return self.dag.node(self.dag.row_of[identifier])

    def pass_rate(self, identifier: str) -> float | None:
        """A node's observed pass rate, or None when nothing was observed."""
        row = self.dag.row_of[identifier]
        known = self.dag.statistics.pass_weight[row] > 0
        return float(self.dag.statistics.pass_rates(np.array([row]))[0]) if known else None

    def select(self, batch: int, proposals: int) -> list[Seed]:
        """`batch` (B) seeds, each for `proposals` (N) proposals; the root quota comes first."""
        if batch < 1 or proposals < 1:
            raise ValueError(f"need at least one seed and one proposal, got B={batch}, N={proposals}")
        return BatchSelector(self.dag, self.ability, self.rng).select(batch, proposals)

    def record(self, seed: Seed, rewards: Sequence[float], pass_rates: Sequence[float] = ()) -> None:
        """Take in what a seed brought.

        One visit with R = mean(rewards) is backed up along the seed's path; a proposal with a second parent also backs
        up its own reward along that parent's path with weight 1/N, the share it has in the seed's visit (section G.8).

        Args:
            rewards: [N] Proposer rewards in the order of the proposals; a validity penalty below 0 counts as 0 here,
                because the bandit's reward is V * U (section D.5).
            pass_rates: of the accepted proposals; their mean is an observation of the seed's pass rate, and each counts
                for the solver's ability.

        Raises:
            ValueError: not N rewards, a value out of range, or a seed that is no member.
        """
        if len(rewards) != len(seed.second_parents):
            raise ValueError(f"expected {len(seed.second_parents)} rewards, got {len(rewards)}")
        if not all(r <= 1.0 for r in rewards):
            raise ValueError(f"rewards must be at most 1, got {max(rewards)}")
        path = [self._row(i) for i in seed.path]
        utilities = [max(0.0, float(r)) for r in rewards]
        self.dag.statistics.count_visit()
        self.dag.back_up(path, sum(utilities) / len(utilities))
        for utility, second in zip(utilities, seed.second_parents, strict=True):
            self.dag.statistics.add_proposal(path[-1], second is not None, utility)
            if second is not None:
                self.dag.back_up(self.dag.ancestry(self._row(second)), utility, weight=1 / len(utilities))
        if seed.kind is SeedKind.DESCENDED:
            self._count_actions(path)
        for rate in pass_rates:
            self.observe_pass_rate(rate)
        if pass_rates:
            self.dag.statistics.observe_pass_rate(path[-1], sum(pass_rates) / len(pass_rates))

    def observe_pass_rate(self, pass_rate: float, identifier: str | None = None) -> None:
        """A pass rate of the solver, in [0, 1]: counts for its ability, and for the node if one is named."""
        if not 0.0 <= pass_rate <= 1.0:
            raise ValueError(f"pass_rate must lie in [0, 1], got {pass_rate}")
        self.rates_sum += pass_rate
        self.rates_count += 1
        if identifier is not None:
            self.dag.statistics.observe_pass_rate(self._row(identifier), pass_rate)

    def admit(self, candidate: Candidate) -> Admission:
        """Admit, absorb or reject a candidate; see `selfplay.curriculum.admission.admit`.

        Its pass rate counts for the new node or the absorbing parent, not again for the solver's ability.
        """
        parents = set(parent_rows(self.dag, candidate))
        siblings = [r for r in self.admitted_now if parents & {self.dag.row_of[p] for p in self.dag.node(r).parents}]
        admission = admit(self.dag, self.gate, candidate, siblings)
        if admission.outcome is Outcome.ADMITTED and admission.node_id is not None:
            self.admitted_now.append(self.dag.row_of[admission.node_id])
        self.outcomes[f"{admission.outcome}/{admission.reason}" if admission.reason else str(admission.outcome)] += 1
        return admission

    def step_end(self) -> list[str]:
        """Move to the next step: decay, ability EMA, clean-up. Returns the ids of the nodes that were pruned."""
        if self.rates_count:
            mean = self.rates_sum / self.rates_count
            rate = self.dag.config.ability_rate
            self.ability = mean if self.ability is None else (1 - rate) * self.ability + rate * mean
        self.rates_sum, self.rates_count = 0.0, 0
        self.admitted_now = []
        self.dag.statistics.step += 1
        pruned = []
        for row in self.dag.unsolvable().tolist():
            pruned.append(self.dag.node(row).id)
            self.dag.remove(row)
            self.gate.index.remove(row)
        return pruned

    def packing_violations(self) -> list[tuple[str, str, float]]:
        """Pairs of members with a similarity above `max_pool_sim`, roots among themselves left out (lemma G.2).

        Always empty: the gate's index misses no such pair. Costs one query per node; meant for tests and audits.
        """
        rows = close_pairs(self.gate.index, self.dag.live_rows(), self.gate.config.max_pool_sim)
        pairs = [(self.dag.node(a), self.dag.node(b), similarity) for a, b, similarity in rows]
        return [(a.id, b.id, similarity) for a, b, similarity in pairs if not (a.is_root and b.is_root)]

    def depth_histogram(self) -> dict[int, int]:
        """Number of nodes at each depth, in order of depth."""
        counts = Counter(self.dag.node(r).depth for r in self.dag.row_of.values())
        return dict(sorted(counts.items()))

    def pool_hash(self) -> str:
        """SHA-256 over nodes, statistics, edges, signatures, ability and random state; equal for equal pools."""
        return take(self).digest()

    def save(self, folder: str | Path) -> None:
        """Write the pool into `folder`; a kill at any moment leaves the previous save or this one."""
        save_snapshot(folder, take(self))

    @classmethod
    def load(
        cls,
        folder: str | Path,
        config: CurriculumConfig,
        novelty: NoveltyConfig,
        normalise: Callable[[str], str] = structural_form,
        reset_pass_rate: bool = False,
    ) -> Curriculum:
        """The pool that was saved into `folder`, exactly.

        Args:
            reset_pass_rate: cold start with a new solver: pass rates and ability are forgotten (section G.2).

        Raises:
            PoolError: the folder holds no intact pool, or one made with other MinHash settings.
        """
        curriculum = cls.__new__(cls)
        restore(curriculum, load_snapshot(folder), Path(folder), config, novelty, normalise)
        if reset_pass_rate:
            curriculum.dag.statistics.reset_pass_rates()
            curriculum.ability = None
        return curriculum

    def _row(self, identifier: str) -> int:
        if identifier not in self.dag.row_of:
            raise ValueError(f"node {identifier!r} is no member of the pool")
        return self.dag.row_of[identifier]

    def _count_actions(self, path: Sequence[int]) -> None:
        """Count the edges that a descent took, and that it stayed at its end unless the depth cap ended it."""
        stats = self.dag.statistics
        for parent, child in pairwise(path):
            self.dag.edges[parent].count(child, stats.decay, stats.step)
        if len(path) <= self.dag.config.depth_cap:
            stats.add_stay(path[-1])

"""Settings of the curriculum DAG and of the novelty gate (ANCORA, arXiv 2604.27644: sections 4.4, D.4, D.5, G).

Every number that the paper publishes is a default here. The constants it leaves unnamed (marked "ours") were chosen so
that no additive prior outweighs the exploit term, which lies in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, field

OPERATOR_MODES = ("fixed", "aware")
EXPLOIT_MODES = ("ratchet", "empirical")
DIRECTIONS = ("adaptive", "up", "down")
ZPD_WINDOWS = ("centered", "above")


@dataclass
class ZpdConfig:
    """Zone of proximal development: the difficulty window around the solver's ability (sections G.12 item 5, D.4)."""

    width: float = 0.40  # delta
    window: str = "centered"  # centered: [a - d/2, a + d/2] (G.12) | above: [a, a + d] (D.4)
    upper_margin: float = 0.0  # lowers the upper end; 0.10 is the clipped variant of D.4, a negative result
    weight: float = 0.1  # lambda_ZPD of the empirical exploit term (ours)


@dataclass
class CurriculumConfig:
    """Selection, statistics and clean-up of the DAG."""

    root_ratio: float = 0.50  # rho: share of a batch drawn from the roots alone; 1.0 is the No-Descent ablation
    crossover: float = 0.50  # share of a seed's N proposals that get a second parent (q_crossover_ratio)
    operators: str = "fixed"  # fixed: `crossover` is the share | aware: (seed, operator) are arms of their own (D.5, i)
    exploit: str = "ratchet"  # ratchet | empirical (known to collapse within about 300 steps, section D.5)
    direction: str = "adaptive"  # adaptive: up when the seed's pass rate is at or above the ability | up | down
    ucb_stat_decay: float = 0.995  # gamma: decay of visits and rewards per step, an effective horizon of 200 steps
    pass_rate_decay: float = 0.996  # decay of a node's pass rate per observation
    depth_cap: int = 6  # D: levels of descent and of backup
    backup_discount: float = 0.9  # weight of an ancestor `distance` levels up is backup_discount ** distance (ours)
    exploration: float = 0.5  # c of the UCB bonus (ours)
    kin_weight: float = 0.1  # lambda_kin (ours)
    kin_neighbours: int = 8  # MinHash neighbours that a node keeps (ours)
    kin_min_sim: float = 0.30  # least similarity of a neighbour (ours)
    descend_margin: float = 0.05  # added to the stay score: a child must beat it (ours)
    batch_repulsion: float = 0.5  # taken off a root, edge or stay for each time that this batch chose it (ours)
    cold_start_value: float = 0.15  # value of an unvisited node when no pass rate is known
    ability_rate: float = 0.1  # weight of a step's mean pass rate in the ability EMA (ours)
    absorb_min_sim: float = 0.60  # a child at least this similar to a parent merges into it (mcts_absorb_sim_threshold)
    prune_min_visits: float = 20.0  # discounted visits after which a non-root node without a pass is removed
    zpd: ZpdConfig = field(default_factory=ZpdConfig)

    def check(self) -> None:
        """Refuse values outside their range.

        Raises:
            ValueError: one line naming the field, its value and what is allowed.
        """
        for name in ("root_ratio", "crossover", "backup_discount", "kin_min_sim", "cold_start_value", "absorb_min_sim"):
            _within(name, getattr(self, name), 0.0, 1.0)
        for name in ("ucb_stat_decay", "pass_rate_decay", "ability_rate"):
            _within(name, getattr(self, name), 1e-9, 1.0)
        for name in ("exploration", "kin_weight", "descend_margin", "batch_repulsion", "prune_min_visits"):
            _within(name, getattr(self, name), 0.0, float("inf"))
        _within("zpd.width", self.zpd.width, 0.0, 2.0)
        _within("zpd.upper_margin", self.zpd.upper_margin, 0.0, 1.0)
        _within("zpd.weight", self.zpd.weight, 0.0, float("inf"))
        _within("depth_cap", self.depth_cap, 0, 1000)
        _within("kin_neighbours", self.kin_neighbours, 0, 64)
        _one_of("operators", self.operators, OPERATOR_MODES)
        _one_of("exploit", self.exploit, EXPLOIT_MODES)
        _one_of("direction", self.direction, DIRECTIONS)
        _one_of("zpd.window", self.zpd.window, ZPD_WINDOWS)


@dataclass
class NoveltyConfig:
    """The novelty gate: what counts as a new specification (section G.2, assumption 3 of G.11).

    A specification is compared by its clauses alone, from the first `requires` or `ensures` on, as the set of all
    token n-grams of 1 to `shingle` tokens. The shared header would make every short specification look alike, and
    n-grams of one fixed length would make those that differ in one constant look unrelated: for one-clause
    specifications of 8 tokens, a changed constant gives a similarity of 0.67 with `shingle = 2` but 0 with 5-grams.
    """

    max_pool_sim: float = 0.72  # reject above this Jaccard similarity to any member of the pool
    max_sibling_sim: float = 0.55  # reject above this to a sibling admitted in the same step
    max_structural_sim: float = 0.90  # reject above this to a parent, identifiers and literals normalised
    shingle: int = 2  # longest token n-gram
    permutations: int = 128  # MinHash permutations
    hash_seed: int = 1  # seed of the permutations; signatures of different seeds do not compare

    def check(self) -> None:
        """Refuse values outside their range.

        Raises:
            ValueError: one line naming the field, its value and what is allowed.
        """
        for name in ("max_pool_sim", "max_sibling_sim", "max_structural_sim"):
            _within(name, getattr(self, name), 0.0, 1.0)
        _within("shingle", self.shingle, 1, 16)
        _within("permutations", self.permutations, 16, 1024)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name}={value} is out of range; allowed: {low} to {high}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; allowed: {', '.join(allowed)}")

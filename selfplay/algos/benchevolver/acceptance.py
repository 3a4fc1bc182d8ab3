"""Difficulty and the rule of acceptance: pure functions of measured accuracies (BenchEvolver, sections 3.3 and 3.4)."""

from __future__ import annotations

from selfplay.algos.benchevolver.candidate import Reason
from selfplay.algos.benchevolver.evolution_config import AcceptanceConfig


def difficulty(accuracy: float) -> float:
    """phi(acc) = 1 - acc, one scale for seeds and candidates. Raises ValueError outside of [0, 1]."""
    if not 0.0 <= accuracy <= 1.0:
        raise ValueError(f"an accuracy lies in [0, 1], not {accuracy}")
    return 1.0 - accuracy


def saturated(accuracy: float, threshold: float = 1.0) -> bool:
    """Whether a seed is to be evolved: its panel solves it (almost) always."""
    return accuracy >= threshold


def accept(accuracy: float, seed: float, parent: float, family_known: bool, config: AcceptanceConfig) -> Reason | None:
    """None to accept, or why not. `seed` and `parent` are accuracies; `family_known`: in another lineage."""
    if config.solvable and accuracy <= 0.0:
        return Reason.UNSOLVED
    gain = difficulty(accuracy) - difficulty(seed)
    if gain <= config.min_gain + 1e-12:
        return Reason.NOT_HARDER
    if config.harder_than_parent and difficulty(accuracy) <= difficulty(parent) + 1e-12:
        return Reason.NOT_HARDER_THAN_PARENT
    if family_known and gain <= config.min_gain + config.repeat_family_gain + 1e-12:
        return Reason.FAMILY_REPEATED
    return None

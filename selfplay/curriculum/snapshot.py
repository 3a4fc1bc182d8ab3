"""Between a living curriculum and its `Snapshot`: which state there is, and how it comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.dag import Dag, Edges
from selfplay.curriculum.novelty import NoveltyGate
from selfplay.curriculum.persistence import MANIFEST, PoolError, Snapshot
from selfplay.curriculum.statistics import FLOAT_COLUMNS

if TYPE_CHECKING:
    from selfplay.curriculum.curriculum import Curriculum

_HASH_SETTINGS = ("shingle", "permutations", "hash_seed")  # signatures made with others do not compare


def take(curriculum: Curriculum) -> Snapshot:
    """A copy of the state, complete and free of references to the living object."""
    dag, stats = curriculum.dag, curriculum.dag.statistics
    arrays: dict[str, NDArray[Any]] = {
        name: getattr(stats, name)[: stats.size].copy() for name in ("touched", *FLOAT_COLUMNS)
    }
    arrays["kin"] = dag.kin[: stats.size].copy()
    arrays["signatures"] = curriculum.gate.index.signatures.copy()
    arrays.update(_flat_edges(dag))
    settings = asdict(curriculum.gate.config)
    state = {
        "step": stats.step,
        "total": stats.total,
        "total_step": stats.total_step,
        "positive_sum": stats.positive_sum,
        "positive_count": stats.positive_count,
        "ability": curriculum.ability,
        "rates_sum": curriculum.rates_sum,
        "rates_count": curriculum.rates_count,
        "admitted_now": list(curriculum.admitted_now),
        "outcomes": dict(curriculum.outcomes),
        "rng": curriculum.rng.bit_generator.state,
        "minhash": {name: settings[name] for name in _HASH_SETTINGS},
    }
    return Snapshot(list(dag.nodes), arrays, state)


def restore(
    curriculum: Curriculum,
    snapshot: Snapshot,
    folder: Path,
    config: CurriculumConfig,
    novelty: NoveltyConfig,
    normalise: Callable[[str], str],
) -> None:
    """Fill an empty curriculum object from a snapshot.

    Raises:
        PoolError: fields or arrays are missing or do not fit, or the MinHash settings differ from `novelty`.
    """
    curriculum.dag = Dag(config)
    curriculum.gate = NoveltyGate(novelty, normalise)
    try:
        _check_settings(snapshot.state["minhash"], novelty)
        _restore_state(curriculum, snapshot.state)
        _restore_dag(curriculum.dag, snapshot)
        _restore_index(curriculum, snapshot)
    except KeyError as error:
        raise PoolError(f"{folder}: the saved pool lacks {error}") from error
    except (ValueError, TypeError, IndexError) as error:
        raise PoolError(f"{folder / MANIFEST}: {error}") from error


def _check_settings(saved: dict[str, Any], novelty: NoveltyConfig) -> None:
    for name in _HASH_SETTINGS:
        if saved[name] != getattr(novelty, name):
            raise ValueError(f"was saved with novelty.{name}={saved[name]}, now it is {getattr(novelty, name)}")


def _restore_state(curriculum: Curriculum, state: dict[str, Any]) -> None:
    stats = curriculum.dag.statistics
    stats.step = int(state["step"])
    stats.total, stats.total_step = float(state["total"]), int(state["total_step"])
    stats.positive_sum, stats.positive_count = float(state["positive_sum"]), int(state["positive_count"])
    curriculum.ability = None if state["ability"] is None else float(state["ability"])
    curriculum.rates_sum, curriculum.rates_count = float(state["rates_sum"]), int(state["rates_count"])
    curriculum.admitted_now = [int(r) for r in state["admitted_now"]]
    curriculum.outcomes = Counter(state["outcomes"])
    curriculum.rng = np.random.default_rng()
    curriculum.rng.bit_generator.state = state["rng"]


def _restore_dag(dag: Dag, snapshot: Snapshot) -> None:
    rows, arrays, stats = len(snapshot.nodes), snapshot.arrays, dag.statistics
    for name in ("touched", *FLOAT_COLUMNS, "kin", "signatures"):
        if len(arrays[name]) != rows:
            raise ValueError(f"array {name!r} has {len(arrays[name])} rows for {rows} nodes")
    alive = np.array([n is not None for n in snapshot.nodes], dtype=np.bool_)
    stats.fill(alive, {name: arrays[name] for name in ("touched", *FLOAT_COLUMNS)})
    dag.nodes = list(snapshot.nodes)
    dag.row_of = {n.id: row for row, n in enumerate(dag.nodes) if n is not None}
    dag.roots = [row for row, n in enumerate(dag.nodes) if n is not None and n.is_root]
    places = min(dag.kin.shape[1], arrays["kin"].shape[1])
    dag.kin = np.full((len(stats.touched), dag.kin.shape[1]), -1, dtype=np.int64)
    dag.kin[:rows, :places] = arrays["kin"][:, :places]
    columns = (arrays[name].tolist() for name in ("edge_parent", "edge_child", "edge_visits", "edge_touched"))
    for parent, child, visits, touched in zip(*columns, strict=True):
        dag.edges.setdefault(parent, Edges()).add(child, visits, touched)


def _restore_index(curriculum: Curriculum, snapshot: Snapshot) -> None:
    index = curriculum.gate.index
    index.add_all(snapshot.arrays["signatures"])
    for row, node in enumerate(snapshot.nodes):
        if node is None:
            index.remove(row)


def _flat_edges(dag: Dag) -> dict[str, NDArray[Any]]:
    """All edges as parallel columns, by parent row and then in order of insertion."""
    parents = [p for p in sorted(dag.edges) if dag.edges[p].size]
    columns: dict[str, list[NDArray[Any]]] = {"edge_child": [], "edge_visits": [], "edge_touched": []}
    for parent in parents:
        visits, touched = dag.edges[parent].stored
        columns["edge_child"].append(dag.edges[parent].children)
        columns["edge_visits"].append(visits)
        columns["edge_touched"].append(touched)
    sizes = [dag.edges[p].size for p in parents]
    flat: dict[str, NDArray[Any]] = {"edge_parent": np.repeat(np.array(parents, dtype=np.int64), sizes)}
    kinds = {"edge_child": np.int64, "edge_visits": np.float64, "edge_touched": np.int64}
    for name, parts in columns.items():
        flat[name] = np.concatenate(parts) if parts else np.zeros(0, dtype=kinds[name])
    return flat

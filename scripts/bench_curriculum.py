"""Measure the curriculum at scale: `python scripts/bench_curriculum.py --nodes 100000`.

A pool is grown from 300 random roots by the real gate (each candidate is a random specification whose parent is a
random member), then selection, admission, memory, saving and loading are measured, and what selection and the search
for near nodes take where they scan the whole pool. Prints one table. All times are processor time of this
single-threaded process: what an idle machine takes, whatever else runs meanwhile.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.node import Candidate, Outcome
from selfplay.curriculum.roots import Root

ROOTS = 300
RELATIONS = ("==", "<=", "<", ">=", "!=")


def expression(rng: np.random.Generator, depth: int) -> str:
    """A random integer expression over x, y, z, r."""
    if depth == 0:
        return str(rng.integers(0, 50)) if rng.random() < 0.4 else str(rng.choice(["x", "y", "z", "r"]))
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    return f"({left} {rng.choice(['+', '-', '*', '/', '%'])} {right})"


def specification(rng: np.random.Generator) -> str:
    """A random specification of 2 to 4 clauses."""
    lines = ["method M(x: int, y: int, z: int) returns (r: int)"]
    for clause in range(int(rng.integers(2, 5))):
        word = "requires" if clause == 0 else "ensures"
        relation = rng.choice(RELATIONS)
        lines.append(f"  {word} {expression(rng, 1)} {relation} {expression(rng, int(rng.integers(1, 3)))}")
    return "\n".join(lines)


def grow(curriculum: Curriculum, rng: np.random.Generator, nodes: int) -> list[float]:
    """Admit candidates until the pool has `nodes`; returns the seconds of each admission."""
    seconds = []
    ids = [curriculum.dag.node(r).id for r in curriculum.dag.roots]
    while len(curriculum) < nodes:
        parent = ids[int(rng.integers(len(ids)))]
        candidate = Candidate(specification(rng), (parent,), "{ r := 0; }", float(rng.uniform(0.1, 1.0)))
        start = time.process_time()
        admission = curriculum.admit(candidate)
        seconds.append(time.process_time() - start)
        if admission.outcome is Outcome.ADMITTED and admission.node_id is not None:
            ids.append(admission.node_id)
        if len(seconds) % 64 == 0:
            curriculum.step_end()
    return seconds


def select_ms(curriculum: Curriculum, rng: np.random.Generator, repeats: int) -> list[float]:
    """Milliseconds to select 64 seeds, each batch recorded with random rewards before the next."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        seeds = curriculum.select(64, 8)
        times.append(1e3 * (time.process_time() - start))
        for seed in seeds:
            curriculum.record(seed, rng.integers(0, 2, 8).astype(float).tolist(), [float(rng.uniform())])
        curriculum.step_end()
    return times


def scan_select_ms(curriculum: Curriculum, repeats: int) -> list[float]:
    """Milliseconds to choose 64 seeds by scoring every node for each of them: the plain way to do it."""
    dag, times = curriculum.dag, []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(64):
            rows = dag.live_rows()
            visits = dag.statistics.visits[rows]
            int(rows[np.argmax(dag.values(rows) + np.sqrt(np.log1p(visits.sum()) / (1 + visits)))])
        times.append(1e3 * (time.process_time() - start))
    return times


def scan_admit_ms(curriculum: Curriculum, rng: np.random.Generator, repeats: int) -> list[float]:
    """Milliseconds to compare a candidate's signature with every signature of the pool."""
    gate, times = curriculum.gate, []
    for _ in range(repeats):
        text = specification(rng)
        start = time.process_time()
        float(np.max(np.count_nonzero(gate.index.signatures == gate.sign(text), axis=1))) / gate.index.permutations
        times.append(1e3 * (time.process_time() - start))
    return times


def slower(scan: list[float], ours: list[float]) -> str:
    return f"{np.median(scan) / np.median(ours):.1f} times as long (median {np.median(scan):.1f} ms)"


def quantiles(milliseconds: list[float]) -> str:
    median, high, most = np.quantile(milliseconds, [0.5, 0.99, 1.0])
    return f"median {median:.2f}, p99 {high:.2f}, max {most:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    config, novelty = CurriculumConfig(), NoveltyConfig()
    roots = [Root(f"root{i}", specification(rng)) for i in range(ROOTS)]
    before = psutil.Process().memory_info().rss
    curriculum = Curriculum(roots, config, novelty, seed=0)
    small = max(ROOTS, arguments.nodes // 10)
    grow(curriculum, rng, small)
    few = select_ms(curriculum, rng, 20)
    admitted = [1e3 * s for s in grow(curriculum, rng, arguments.nodes)[-20_000:]]
    used = psutil.Process().memory_info().rss - before
    text = sum(len(n.text) + len(n.answer or "") for n in curriculum.dag.nodes if n is not None)
    many = select_ms(curriculum, rng, 20)
    scanned, compared = scan_select_ms(curriculum, 3), scan_admit_ms(curriculum, rng, 50)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        curriculum.save(folder)
        saved = time.process_time() - start
        start = time.process_time()
        again = Curriculum.load(folder, config, novelty)
        loaded = time.process_time() - start
    same = again.pool_hash() == curriculum.pool_hash()
    table = Table(title=f"curriculum of {len(curriculum)} nodes, {ROOTS} roots")
    table.add_column("what")
    table.add_column("measured")
    table.add_column("target")
    table.add_row(f"select 64 seeds from {small} nodes, ms", quantiles(few), "")
    table.add_row(f"select 64 seeds from {len(curriculum)} nodes, ms", quantiles(many), "50")
    table.add_row("admit one candidate (last 20,000), ms", quantiles(admitted), "5")
    table.add_row("the same selection by a scan of the pool", slower(scanned, many), "")
    table.add_row("the same admission by a scan of the pool", slower(compared, admitted), "")
    table.add_row("memory per node beyond its text, bytes", f"{(used - text) / len(curriculum):.0f}", "8192")
    table.add_row("save, s", f"{saved:.2f}", "")
    table.add_row("load, s", f"{loaded:.2f}", "5")
    table.add_row("hash equal after loading", str(same), "True")
    outcomes = ", ".join(f"{k} {v}" for k, v in sorted(curriculum.outcomes.items()))
    table.add_row("candidates", outcomes, "")
    Console().print(table)


if __name__ == "__main__":
    main()

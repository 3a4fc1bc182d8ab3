"""What a round of the warm-up keeps of its rollouts (section 5.1): verified, finished, and no two alike.

A round's rows go to `warmup/round_1.jsonl` of the run directory, step by step, so that a killed run continues it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfplay.algos.ancora.advantages import PROPOSER, SOLVER
from selfplay.curriculum.minhash_index import MinHashIndex, signature
from selfplay.curriculum.text import tokens
from selfplay.runs.files import read_jsonl, to_json, write_atomic

_PERMUTATIONS, _HASH_SEED, _SHINGLE = 128, 1, 3
Kept = dict[str, Any]  # role, text, prompt_ids, response_ids, step


def harvest(rows: Sequence[Mapping[str, Any]], step: int, end_of_turn: int) -> list[Kept]:
    """The rows of a step that are worth imitating, as they were sampled.

    Answers that verify at the first turn, and accepted specifications that at least one attempt solved; both only where
    the model ended its turn itself.
    """
    kept = []
    for row in rows:
        good = row["reward"] == 1.0 if row["role"] == SOLVER else row["role"] == PROPOSER and row["solved"] > 0
        if good and row.get("turns", 1) == 1 and row["response_ids"][-1:] == [end_of_turn]:
            text = row["spec"] if row["role"] == PROPOSER else f"{row['spec']}\n{row['answer']}"
            ids = {name: row[name] for name in ("prompt_ids", "response_ids")}
            kept.append({"step": step, "role": row["role"], "text": text, **ids})
    return kept


def deduplicated(kept: Iterable[Kept], max_sim: float) -> list[Kept]:
    """Without those whose MinHash similarity to an earlier one of the same role is above `max_sim`, in order.

    A specification is compared with specifications, an answer together with what it proves.
    """
    indices = {role: MinHashIndex(max_sim, _PERMUTATIONS) for role in (PROPOSER, SOLVER)}
    out = []
    for item in kept:
        words = tokens(item["text"])
        grams = {" ".join(words[i : i + n]) for n in range(1, _SHINGLE + 1) for i in range(len(words) - n + 1)}
        sketch, index = signature(grams or {""}, _PERMUTATIONS, _HASH_SEED), indices[item["role"]]
        _, sims = index.similar(sketch)
        if len(sims) and sims[0] > max_sim:
            continue
        index.add(sketch)
        out.append(item)
    return out


class HarvestFile:
    """The rows kept by one round."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Kept]:
        """In the order in which they were written; none before the first `replace_from`."""
        return read_jsonl(self.path) if self.path.exists() else []

    def replace_from(self, step: int, rows: Sequence[Kept]) -> None:
        """Put `rows` in the place of everything from `step` on, in one piece."""
        before = [row for row in self.read() if row["step"] < step]
        self.path.parent.mkdir(exist_ok=True)
        write_atomic(self.path, "".join(to_json(row) + "\n" for row in [*before, *rows]))

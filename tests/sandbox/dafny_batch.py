"""Many programs through the real Dafny in one process: a start costs a second, a small proof a tenth of one."""

from __future__ import annotations

import re

from dafny_programs import Program

from selfplay.sandbox.dafny import Dafny, DafnyRun

BATCH = 40
_ERROR_LINE = re.compile(r"\((\d+),\d+\): Error")
_HEADER = re.compile(r"^\s*method\s+\w+")


def outcomes(dafny: Dafny, programs: list[Program]) -> list[str]:
    """What Dafny says of each program: "verified", "malformed", "failed", "undecided" or "error".

    The programs' methods are renamed to M0, M1, ... and verified together. Programs that do not parse or resolve are
    taken out by the lines of the errors and tried alone, so that they hide no other.
    """
    results: dict[int, str] = {}
    for start in range(0, len(programs), BATCH):
        _batch(dafny, programs, list(range(start, min(start + BATCH, len(programs)))), results)
    return [results[index] for index in range(len(programs))]


def _batch(dafny: Dafny, programs: list[Program], indices: list[int], results: dict[int, str]) -> None:
    while indices:
        lines, owners = [], []
        for index in indices:
            text = f"{_HEADER.sub(f'method M{index}', programs[index].spec, count=1)}\n{programs[index].answer}"
            lines.append(text)
            owners += [index] * (text.count("\n") + 1)
        run = dafny.run("\n".join(lines))
        if run is not None and run.exit_code != 2:
            results.update({index: _outcome(run, index) for index in indices})
            return
        if len(indices) == 1:
            results[indices[0]] = "error" if run is None else "malformed"
            return
        found = [] if run is None else [int(line) for line in _ERROR_LINE.findall(run.output)]
        suspects = {owners[min(line, len(owners)) - 1] for line in found}
        if not suspects:  # it stalled: halve
            _batch(dafny, programs, indices[::2], results)
            indices = indices[1::2]
            continue
        for index in suspects:
            _batch(dafny, programs, [index], results)
        indices = [index for index in indices if index not in suspects]


def _outcome(run: DafnyRun, index: int) -> str:
    tasks = {name: outcome for name, outcome in run.tasks.items() if name.endswith(f".M{index}")}
    if not any(name.startswith("Impl$$") for name in tasks):
        return "error"
    if set(tasks.values()) == {"verified"}:
        return "verified"
    return "failed" if "error" in tasks.values() else "undecided"

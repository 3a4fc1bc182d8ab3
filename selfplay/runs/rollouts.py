"""`rollouts/step_000012.jsonl`: what the model was asked, what it wrote, and what became of it.

To read one: `python -m selfplay.runs.rollouts outputs/.../rollouts/step_000012.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from selfplay.runs.files import RunDirError, to_json, write_atomic

_FILE = re.compile(r"^step_(\d+)\.jsonl$")


@dataclass(frozen=True)
class Rollout:
    """One generated sequence. `key` is unique in its step; `group` joins the rows whose rewards are compared."""

    key: str
    role: str
    group: str
    prompt: str
    response: str
    verdict: str
    reward: float
    advantage: float | None = None
    detail: str = ""  # why: a rejection's reason, a counterexample


class RolloutWriter:
    """Writes one file a step, in one piece."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, step: int, rows: Iterable[Rollout]) -> Path:
        """Write (or replace) the file of `step` and return its path."""
        path = self.folder / f"step_{step:06d}.jsonl"
        write_atomic(path, "".join(to_json(asdict(row)) + "\n" for row in rows))
        return path

    def truncate_after(self, step: int) -> None:
        """Remove the files of steps beyond `step`, which a resumed run will write anew."""
        for entry in self.folder.iterdir():
            match = _FILE.match(entry.name)
            if match and int(match[1]) > step:
                entry.unlink()


def read_rollouts(path: Path) -> Iterator[Rollout]:
    """The rows of a file.

    Raises:
        RunDirError: a line is not a rollout; names file and line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield Rollout(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise RunDirError(f"{path}:{number}: not a rollout: {error}") from error


def describe(rollout: Rollout) -> str:
    """A rollout for people: a heading with role, verdict and reward, then prompt and response, indented."""
    advantage = "" if rollout.advantage is None else f"  advantage {rollout.advantage:+.3f}"
    heading = f"{rollout.key}  {rollout.role}  {rollout.verdict}  reward {rollout.reward:.3f}{advantage}"
    parts = [heading]
    if rollout.detail:
        parts.append(f"  why: {rollout.detail}")
    for title, text in (("prompt", rollout.prompt), ("response", rollout.response)):
        parts.append(f"  {title}:")
        parts.extend(f"    {line}" for line in text.splitlines() or [""])
    return "\n".join(parts)


def main() -> int:
    """Print rollouts of one file, all or those of one role or verdict."""
    parser = argparse.ArgumentParser(prog="python -m selfplay.runs.rollouts", description=main.__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--role", help="proposer or solver")
    parser.add_argument("--verdict", help="verified, refuted, ...")
    parser.add_argument("--limit", type=int, help="print the first so many")
    options = parser.parse_args()
    wanted = (
        rollout
        for rollout in read_rollouts(options.path)
        if options.role in (None, rollout.role) and options.verdict in (None, rollout.verdict)
    )
    for rollout in islice(wanted, options.limit):
        print(describe(rollout), end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

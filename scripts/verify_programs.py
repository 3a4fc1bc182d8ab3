"""Verify finished programs with a real prover: `python scripts/verify_programs.py programs.jsonl [--prover dafny]`.

Each is split into specification and body as imported roots are, and the body is verified against the specification by
the adapter that rewards attempts. Prints a line for each program that does not verify, and a table of the verdicts.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from selfplay.algos.ancora.import_roots import Program, programs
from selfplay.sandbox.base import Prover
from selfplay.sandbox.config import PROVER_CONFIGS
from selfplay.sandbox.registry import build_prover
from selfplay.sandbox.source_text import UnreadableError
from selfplay.sandbox.split import split_program

LANGUAGES = {"dafny": "Dafny", "dafny_lite": "Dafny", "verus": "Verus"}


def judged(program: Program, prover: Prover, language: str) -> tuple[str, str]:
    """The verdict in a word, and what was said."""
    try:
        split = split_program(program.text, language)
    except UnreadableError as error:
        return "unreadable", str(error)
    if split.answer is None:
        return "unfinished", "no body"
    judgement = prover.verify(split.spec, split.answer)
    return str(judgement.verdict), judgement.detail


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--prover", default="dafny", choices=sorted(LANGUAGES))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    prover = build_prover(PROVER_CONFIGS[arguments.prover]())
    language, console = LANGUAGES[arguments.prover], Console(soft_wrap=True)
    for source in arguments.sources:
        found, started = list(programs(source, language)), time.monotonic()
        with ThreadPoolExecutor(arguments.workers) as pool:
            verdicts = list(pool.map(lambda program: judged(program, prover, language), found))
        table = Table(title=f"{source.name}: {len(found)} programs in {time.monotonic() - started:.0f} s")
        table.add_column("verdict")
        table.add_column("programs", justify="right")
        for program, (verdict, detail) in zip(found, verdicts, strict=True):
            if verdict != "verified":
                console.print(f"{program.name}: {verdict}: {detail}", markup=False)
        for verdict, count in Counter(verdict for verdict, _ in verdicts).most_common():
            table.add_row(verdict, str(count))
        console.print(table)


if __name__ == "__main__":
    main()

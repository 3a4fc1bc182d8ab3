"""`python -m selfplay.evaluate [key=value ...]`: a model on benchmarks. `--help` has the suites and settings.

python -m selfplay.evaluate model=outputs/ancora/<run>                           its own held-out sets
python -m selfplay.evaluate model=outputs/anchorloop/<run> suites=[math] data.dir=data tool.use=true
python -m selfplay.evaluate backbone=qwen3_4b_base cluster=gpu suites=[math,general] data.hub=true
python -m selfplay.evaluate endpoint.base_url=http://host:8000/v1 endpoint.model=name suites=[math500] data.dir=data
python -m selfplay.evaluate --compare outputs/evaluate/A outputs/evaluate/B      paired, question by question
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selfplay.config.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from selfplay.evaluation.config import EvaluateConfig
    from selfplay.evaluation.run import Evaluation
    from selfplay.evaluation.subject import Subject
    from selfplay.evaluation.suites import Paper, Scorers

FINISHED, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 failed, 2 bad settings or data, 130 interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if "--help" in words or "-h" in words:
            print(help_page())
            return FINISHED
        if words[:1] == ["--compare"]:
            return compare(words[1:])
        return evaluate(overrides_of(words))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD
    except KeyboardInterrupt:
        print("interrupted; what was scored is kept, and the same command goes on", file=sys.stderr)
        return INTERRUPTED


def overrides_of(words: Sequence[str]) -> list[str]:
    """The settings of a command line; `--limit 20` is `limit=20`. Raises ConfigError for another flag."""
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--limit":
            out.append(f"limit={next(rest, '')}")
        elif word.startswith("-"):
            raise ConfigError(f"{word}: there is no such flag; there are --limit N, --compare A B and --help")
        else:
            out.append(word)
    return out


def load(overrides: Sequence[str]) -> EvaluateConfig:
    """The checked settings. Raises ConfigError."""
    from selfplay.config.load import Root, load_root
    from selfplay.config.validate import own_checks
    from selfplay.evaluation.config import EvaluateConfig

    root = Root("evaluate", EvaluateConfig, ("backbone", "cluster"), lambda config: list(own_checks(config)))
    config = load_root(overrides, root)
    assert isinstance(config, EvaluateConfig)
    return config


def evaluate(overrides: Sequence[str]) -> int:
    """Evaluate one model, print its results and say where they are."""
    from selfplay.benchmarks.code_task import BadData
    from selfplay.evaluation.run import Evaluation, folder_of
    from selfplay.evaluation.subject import subject_of
    from selfplay.evaluation.suites import Scorers, named

    config = load(overrides)
    wanted = {name: suite for suite, name in named(config.suites)}
    subject = subject_of(config)
    scorers = Scorers(config, subject.style)
    try:
        ready = _papers(config, subject, scorers)
        if not ready:
            raise ConfigError("suites: none of the benchmarks is at hand")
        with Evaluation(config, subject, ready, folder_of(config, subject), print) as evaluation:
            code = _answer(evaluation)
            if any(evaluation.records.values()):
                _show(evaluation.results(wanted))
            print(f"samples and results: {evaluation.folder}")
            return code
    except BadData as error:
        raise ConfigError(str(error)) from error
    finally:
        scorers.close()


def _papers(config: EvaluateConfig, subject: Subject, scorers: Scorers) -> list[Paper]:
    """What is at hand, with a line for each benchmark: its checksum, or why it is missing."""
    from selfplay.evaluation.suites import papers

    ready = []
    for found in papers(config, subject, scorers):
        if isinstance(found, str):
            print(f"missing  {found}", file=sys.stderr)
        else:
            ready.append(found)
            print(f"{found.name}: {len(found.items)} questions, {found.source}, sha256 {found.checksum[:16]}")
    return ready


def _answer(evaluation: Evaluation) -> int:
    """Draw what is missing; 1 where that ended early."""
    from selfplay.algos.benchevolver.models import CallFailed, EndpointRefused
    from selfplay.engine.errors import EngineError
    from selfplay.evaluation.run import ask_endpoint, ask_served
    from selfplay.sandbox.python.pool import PythonSandbox
    from selfplay.sandbox.python.result import SandboxError

    config, work = evaluation.config, evaluation.missing()
    there = sum(map(len, evaluation.records.values()))
    print(f"{len(work)} samples to draw" + (f", {there} are there" if there else ""))
    if not work:
        return FINISHED
    uses_tool = config.tool.use or any(one.paper.exam.tool for one in work)
    python = None
    try:
        python = PythonSandbox(config.python) if uses_tool else None
        (ask_endpoint if config.remote else ask_served)(evaluation, work, python)
    except (EngineError, SandboxError, CallFailed, EndpointRefused, RuntimeError, OSError) as error:
        print(f"failed: {error}; what was scored is kept, and the same command goes on", file=sys.stderr)
        return FAILED
    finally:
        if python is not None:
            python.close()
    if evaluation.failed:
        print(f"{evaluation.failed} samples have no score; the same command asks for them again", file=sys.stderr)
    return FAILED if evaluation.failed else FINISHED


def _show(results: dict[str, dict[str, dict[str, object]]]) -> None:
    from selfplay.evaluation.results import table

    _console().print(table(results["benchmarks"], results["suites"]))


def _console() -> Console:
    """Wide enough for the tables where the output is no terminal."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, width=max(140, Console().width))


def compare(folders: Sequence[str]) -> int:
    """Two evaluations, paired by question. Raises ConfigError for a folder that is none."""
    from selfplay.evaluation.compare import compared

    if len(folders) != 2:
        raise ConfigError("--compare: it takes two folders of evaluations")
    _console().print(compared(Path(folders[0]), Path(folders[1])))
    return FINISHED


def help_page() -> str:
    """The suites with their benchmarks, the common settings and the flags."""
    from selfplay.benchmarks.catalogue import SUITES
    from selfplay.evaluation.suites import MICRO

    suites = {**{suite: [one.name for one in members] for suite, members in SUITES.items()}, "micro": list(MICRO)}
    lines = [f"  {suite:<8} {', '.join(names)}" for suite, names in suites.items()]
    return "\n".join([(__doc__ or "").rstrip(), "", "Suites", *lines, _SETTINGS])


_SETTINGS = """
Settings (all of them: selfplay/evaluation/config.py)
  suites=[math,humaneval]     suites and benchmarks; default [micro]
  data.dir=FOLDER             files in the shapes that the benchmarks are published in; data.hub=true asks the hub
  data.revision.math500=...   a commit, tag or branch of the hub
  data.since=2025-02-01       coding problems published from that day on; data.until likewise
  tool.use=true               Python for the model
  limit=20 (--limit 20)       the first so many questions of each benchmark
  samples=8 temperature=1     in the place of each benchmark's own
  max_tokens=4096             of an answer, tool output included
  name=... output_dir=...     where the results go; the same settings go on in the same folder

Exit codes
  0 finished   1 failed, go on with the same command   2 bad settings or data   130 interrupted, likewise"""


if __name__ == "__main__":
    sys.exit(main())

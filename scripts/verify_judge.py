"""The judge on published problems: `python scripts/verify_judge.py --codecontests FILE --mbpp FILE --scicode FILE`.

References should pass; those that do not are listed with their first failing test. Of those that pass, wrong variants
are made (an operator, a comparison or a constant is changed) and judged: a variant that is accepted although it prints
other tokens than expected is listed, as a false accept or a number within tolerance.
"""

from __future__ import annotations

import argparse
import ast
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from selfplay.benchmarks import livecodebench, mbpp_plus, scicode
from selfplay.benchmarks.code_task import CodeTask
from selfplay.sandbox.config import JudgeConfig
from selfplay.sandbox.judge import values
from selfplay.sandbox.judge.cases import CallTest, StdioTest
from selfplay.sandbox.judge.compare import same_output
from selfplay.sandbox.judge.harness import call_program, written
from selfplay.sandbox.judge.judge import Job, Judge, JudgeError
from selfplay.sandbox.python.result import Ending

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def variants(program: str, count: int, seed: int) -> Iterator[str]:
    """Up to `count` programs that differ from this one in one place."""
    places = list(_places(ast.parse(program)))
    random.Random(seed).shuffle(places)
    for place in sorted(places[:count]):
        tree = ast.parse(program)
        for number, change in enumerate(_changes(tree)):
            if number == place:
                change()
                break
        yield ast.unparse(tree)


def _places(tree: ast.AST) -> range:
    return range(sum(1 for _ in _changes(tree)))


def _changes(tree: ast.AST):  # type: ignore[no-untyped-def]
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield lambda node=node: node.ops.__setitem__(0, SWAPS[type(node.ops[0])]())
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
            yield lambda node=node: setattr(node, "op", SWAPS[type(node.op)]())
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield lambda node=node: setattr(node, "value", node.value + 1)


def codecontests(path: Path, judge: Judge, count: int) -> None:
    tasks = list(livecodebench.read(path))
    started = time.monotonic()
    verdicts = judge.judge_all([Job(task.reference, task.tests) for task in tasks], stop=False)
    seconds, tests = time.monotonic() - started, sum(len(task.tests) for task in tasks)
    print(f"{path.name}: {sum(v.passed for v in verdicts)} of {len(tasks)} references pass all their tests")
    print(f"  {tests} tests in {seconds:.1f} s: {tests / seconds:.0f} a second; {Counter(v.outcome for v in verdicts)}")
    for task, verdict in zip(tasks, verdicts, strict=True):
        if (place := verdict.first_failure) is not None:
            test, result = task.tests[place], verdict.results[place]
            wanted = f", wanted {test.stdout[:40]!r}" if isinstance(test, StdioTest) else ""
            print(f"  {task.task_id}: {result.outcome} {result.detail[:70]!r}{wanted}")
    passing = [task for task, verdict in zip(tasks, verdicts, strict=True) if verdict.passed]
    false_accepts(passing, judge, count)


def false_accepts(tasks: list[CodeTask], judge: Judge, count: int) -> None:
    """Judge wrong variants under both comparisons."""
    kinds: dict[str, Counter[str]] = {"strict": Counter(), "paper": Counter()}
    for number, task in enumerate(tasks):
        for program in variants(task.reference, count, seed=number):
            runs = [(judge.output(program, test.stdin), test) for test in task.tests if isinstance(test, StdioTest)]
            same = all(r.ending is Ending.FINISHED and r.stdout.split() == t.stdout.split() for r, t in runs)
            for comparison, counts in kinds.items():
                accepted = all(
                    run.ending is Ending.FINISHED and same_output(run.stdout, test.stdout, comparison=comparison)
                    for run, test in runs
                )
                kind = "accepted, same tokens" if same else "ACCEPTED, OTHER TOKENS" if accepted else "refused"
                counts[kind] += 1
                if kind.isupper() or (accepted and not same):
                    bad = next((r, t) for r, t in runs if r.stdout.split() != t.stdout.split())
                    print(f"  {comparison}: {task.task_id}: {bad[0].stdout[:50]!r}, wanted {bad[1].stdout[:50]!r}")
    for comparison, counts in kinds.items():
        print(f"  wrong variants, {comparison}: {dict(counts)}")


def mbpp(path: Path, judge: Judge, count: int) -> None:
    problems = list(mbpp_plus.read(path))
    jobs, wrong, unreadable = [], [], Counter[str]()
    for number, problem in enumerate(problems):
        tests = []
        for arguments in problem.inputs[:20]:
            run = judge.output(call_program(problem.reference, problem.function, arguments, {}), "")
            value = written(run.stdout)
            if run.ending is Ending.FINISHED and value is not None:
                tests.append(CallTest(problem.function, arguments, values.loads(value)))
            else:
                unreadable[f"{problem.task_id}: {(run.stderr.strip().splitlines() or [run.ending])[-1][:90]}"] += 1
        jobs.append(Job(problem.reference, tests))
        wrong += [Job(program, tests) for program in variants(problem.reference, count, seed=number)]
    verdicts = judge.judge_all(jobs, stop=False)
    print(f"{path.name}: {sum(v.passed for v in verdicts)} of {len(jobs)} references agree with themselves")
    for problem, verdict in zip(problems, verdicts, strict=True):
        if not verdict.passed:
            print(f"  {problem.task_id}: {verdict.outcome}, {len(verdict.results)} tests")
    for what, times in unreadable.items():
        print(f"  no value from {what} ({times} inputs)")
    refused = [not v.passed for v in judge.judge_all(wrong)]
    print(f"  wrong variants: {sum(refused)} refused, {len(refused) - sum(refused)} agree on all inputs")


def scicode_file(path: Path, judge: Judge) -> None:
    counts: Counter[str] = Counter()
    for task in scicode.read(path):
        tests = scicode.with_targets(judge, task.reference, task.hidden)
        counts["no target"] += len(task.hidden) - len(tests)
        if not tests:
            continue
        try:
            verdict = judge.judge(task.reference, tests, stop=False)
        except JudgeError as error:
            counts[f"a broken test: {error}"] += 1
            continue
        for result in verdict.results:
            counts[f"{result.outcome}" + (f": {result.detail[:90]}" if result.detail else "")] += 1
        broken = judge.judge(f"def {task.function}(*a, **k): return None", tests)
        counts["a program that returns None: " + ("ACCEPTED" if broken.passed else "refused")] += 1
    print(f"{path.name}: tests by outcome")
    for kind, number in counts.most_common():
        print(f"  {number:4d} {kind}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("codecontests", "mbpp", "scicode"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--variants", type=int, default=4, help="wrong variants of each reference")
    arguments = parser.parse_args()
    if arguments.codecontests:
        codecontests(arguments.codecontests, Judge(JudgeConfig()), arguments.variants)
    if arguments.mbpp:
        mbpp(arguments.mbpp, Judge(JudgeConfig()), arguments.variants)
    if arguments.scicode:
        packages = ["numpy", "scipy"]
        scientific = JudgeConfig(packages=packages, preload=["numpy", "scipy.special", "scipy.linalg"], wall_s=30.0)
        scicode_file(arguments.scicode, Judge(scientific))


if __name__ == "__main__":
    main()

"""LiveCodeBench's files: one problem a line, hidden tests plain or packed (base64 of zlib of a pickled JSON text)."""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from selfplay.benchmarks.code_task import BadData, CodeTask
from selfplay.runs.files import to_json
from selfplay.sandbox.judge.cases import CallTest, StdioTest, Test

MAX_TESTS_MIB = 512  # of one problem's tests, unpacked: the largest published ones take about 200
OWN = ("question_id", "question_content", "public_test_cases", "private_test_cases", "starter_code", "difficulty")
FIELDS = (*OWN, "question_title", "platform", "contest_id", "contest_date", "metadata")  # the loader takes no others
PLATFORMS, DIFFICULTIES = ("leetcode", "codeforces", "atcoder"), ("easy", "medium", "hard")
HERE = "selfplay"  # the key of `metadata` for what LiveCodeBench has no field for
OURS = ("reference_solution", "unordered")  # fields that LiveCodeBench does not have


class _NoObjects(pickle.Unpickler):
    """Reads pickled text; anything that would import or call something is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which packed tests never need")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it asks for an object from elsewhere")


def unpack(text: str) -> str:
    """The JSON text of packed tests. Raises ValueError for anything else, a pickle that would run code included."""
    try:
        engine = zlib.decompressobj()
        data = engine.decompress(base64.b64decode(text, validate=True), MAX_TESTS_MIB * 2**20)
        if engine.unconsumed_tail:
            raise ValueError(f"more than {MAX_TESTS_MIB} MiB of tests")
        value = _NoObjects(io.BytesIO(data)).load()
    except (binascii.Error, zlib.error, EOFError, AttributeError, IndexError, KeyError, MemoryError) as error:
        raise ValueError(f"not packed tests: {error}") from error
    except pickle.UnpicklingError as error:
        raise ValueError(f"a pickle that is refused: {error}") from error
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        raise ValueError(f"packed tests hold a text, not {type(value).__name__}")
    return value


def pack(text: str) -> str:
    """The inverse of `unpack`, as LiveCodeBench's own loader expects it."""
    return base64.b64encode(zlib.compress(pickle.dumps(text))).decode("ascii")


def read(path: Path | str) -> Iterator[CodeTask]:
    """The problems of a file, one at a time: a whole release takes gigabytes. Raises BadData, naming file and line."""
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield task_of(json.loads(line))
            except (ValueError, TypeError, KeyError) as error:
                what = f"no field {error}" if isinstance(error, KeyError) else error
                raise BadData(f"{path}:{number}: {what}") from error


def task_of(record: Mapping[str, Any]) -> CodeTask:
    """A problem. Raises KeyError for a missing field and ValueError for one that cannot be read."""
    metadata = record.get("metadata") or "{}"
    metadata = json.loads(metadata) if isinstance(metadata, str) else dict(metadata)
    ours = metadata.pop(HERE, {})
    function = str(metadata.get("func_name") or "")
    source = {key: value for key, value in record.items() if key not in (*OWN, *OURS, "metadata")}
    source |= {"metadata": metadata} if metadata else {}
    return CodeTask(
        task_id=str(record["question_id"]),
        statement=str(record["question_content"]),
        public=_tests(record["public_test_cases"], function, "public_test_cases"),
        hidden=_tests(record["private_test_cases"], function, "private_test_cases"),
        reference=str(record.get("reference_solution") or ours.get("reference_solution") or ""),
        function=function,
        starter_code=str(record.get("starter_code") or ""),
        unordered=bool(record.get("unordered", ours.get("unordered", False))),
        difficulty=str(ours.get("difficulty") or record.get("difficulty") or ""),
        source=source | ours.get("source", {}),
    )


def _tests(field: Any, function: str, name: str) -> tuple[Test, ...]:
    try:
        if isinstance(field, str):
            field = field.strip()
            field = json.loads(field if field[:1] in ("[", "") else unpack(field))
        return tuple(_test(case, function) for case in field)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{name}: {error}") from error


def _test(case: Mapping[str, str], function: str) -> Test:
    """A test; Windows line ends are taken for plain ones."""
    given, expected = (str(case[key]).replace("\r\n", "\n") for key in ("input", "output"))
    if case.get("testtype", "functional" if function else "stdin") == "stdin":
        return StdioTest(given, expected)
    if not function:
        raise ValueError("a functional test needs metadata.func_name")
    arguments = tuple(json.loads(line) for line in given.split("\n") if line.strip())
    return CallTest(function, arguments, json.loads(expected))


def record_of(task: CodeTask, *, packed: bool = False) -> dict[str, Any]:
    """The record that LiveCodeBench's loader takes: its fields, platforms and difficulties, and no others.

    What it has no place for goes into `metadata`, under one key of ours.
    """
    hidden = json.dumps([_case(test) for test in task.hidden], ensure_ascii=False)
    platform, metadata = str(task.source.get("platform", "")), dict(_object(task.source.get("metadata")))
    if task.function:
        metadata["func_name"] = task.function
    ours: dict[str, Any] = {"reference_solution": task.reference, "unordered": task.unordered}
    ours |= {"difficulty": task.difficulty} if task.difficulty not in DIFFICULTIES else {}
    more = {key: value for key, value in task.source.items() if key not in FIELDS}
    more |= {"platform": platform} if platform and platform not in PLATFORMS else {}
    ours |= {"source": more} if more else {}
    return {
        "question_title": str(task.source.get("question_title", task.task_id)),
        "question_content": task.statement,
        "platform": platform if platform in PLATFORMS else PLATFORMS[0] if task.function else PLATFORMS[2],
        "question_id": task.task_id,
        "contest_id": str(task.source.get("contest_id", "")),
        "contest_date": str(task.source.get("contest_date", "1970-01-01T00:00:00")),
        "starter_code": task.starter_code,
        "difficulty": _difficulty(task.difficulty),
        "public_test_cases": json.dumps([_case(test) for test in task.public], ensure_ascii=False),
        "private_test_cases": pack(hidden) if packed else hidden,
        "metadata": json.dumps({**metadata, HERE: ours}, ensure_ascii=False),
    }


def _object(value: Any) -> dict[str, Any]:
    return json.loads(value) if isinstance(value, str) and value else dict(value or {})


def _difficulty(text: str) -> str:
    """One of LiveCodeBench's; a number is a share of wrong attempts, and thirds of it are easy, medium and hard."""
    if text in DIFFICULTIES:
        return text
    try:
        return DIFFICULTIES[min(2, int(3 * float(text)))] if 0.0 <= float(text) <= 1.0 else "medium"
    except ValueError:
        return "medium"


def _case(test: Test) -> dict[str, str]:
    if isinstance(test, StdioTest):
        return {"input": test.stdin, "output": test.stdout, "testtype": "stdin"}
    if isinstance(test, CallTest):
        given = "\n".join(json.dumps(value) for value in test.arguments)
        return {"input": given, "output": json.dumps(test.expected), "testtype": "functional"}
    raise ValueError("LiveCodeBench has no tests with assertions")


def lines_of(tasks: Iterable[CodeTask], *, packed: bool = False) -> str:
    """A file of problems."""
    return "".join(to_json(record_of(task, packed=packed)) + "\n" for task in tasks)

"""Verdicts by content: a prover that asks another one only what has not been asked before.

In memory an LRU; on disk, optionally, an append-only file of one JSON object a line. A line is written with one
`write` to a file opened for appending, so several processes may share it, and after a kill at most the last line is
torn: a reader skips whatever is not a whole record. A record another process appends is seen by those that open the
file later.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from selfplay.sandbox.base import Judgement, Prover, Verdict

_MAX_ENTRIES = 200_000
# Not facts about the program: asked again next time.
_NEVER_KEPT = frozenset((Verdict.ERROR,))


def content_key(settings: str, kind: str, *texts: str) -> str:
    """SHA-256 over the prover's settings, the kind of question and its texts, unambiguous in where each text ends."""
    digest = hashlib.sha256()
    for text in (settings, kind, *texts):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


class CachedProver:
    """Wraps a prover. Thread-safe; two threads with one new question may both ask it.

    Args:
        prover: answers what is not known yet.
        settings: everything besides the texts that a verdict depends on (versions, limits), as text.
        path: the file to load verdicts from and append new ones to; None keeps them in memory only.
        max_entries: how many verdicts are held in memory.
    """

    def __init__(
        self, prover: Prover, settings: str, path: str | os.PathLike[str] | None = None, max_entries: int = _MAX_ENTRIES
    ) -> None:
        self.name = prover.name
        self.hits = 0
        self.misses = 0
        self._prover, self._settings, self._max_entries = prover, settings, max_entries
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, Judgement] = OrderedDict()
        self._file: int | None = None
        if path is not None:
            self._open(Path(path))

    def check_spec(self, spec: str) -> Judgement:
        """The wrapped prover's judgement of `spec`."""
        return self._ask(content_key(self._settings, "spec", spec), lambda: self._prover.check_spec(spec))

    def normal_form(self, spec: str) -> str:
        """The wrapped prover's; not cached."""
        return self._prover.normal_form(spec)

    def verify(self, spec: str, answer: str) -> Judgement:
        """The wrapped prover's judgement of `spec` followed by `answer`."""
        key = content_key(self._settings, "verify", spec, answer)
        return self._ask(key, lambda: self._prover.verify(spec, answer))

    def close(self) -> None:
        """Closes the file; verdicts found from now on are kept in memory only."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _ask(self, key: str, question: Callable[[], Judgement]) -> Judgement:
        with self._lock:
            known = self._entries.get(key)
            if known is not None:
                self._entries.move_to_end(key)
                self.hits += 1
                return known
            self.misses += 1
        judgement = question()
        if judgement.verdict not in _NEVER_KEPT:
            self._keep(key, judgement)
        return judgement

    def _keep(self, key: str, judgement: Judgement) -> None:
        record = {"key": key, "verdict": judgement.verdict.value, "detail": judgement.detail}
        line = json.dumps(record | {"counterexample": dict(judgement.counterexample)}) + "\n"
        with self._lock:
            new = key not in self._entries
            self._remember(key, judgement)
            if self._file is not None and new:
                _append(self._file, line.encode())

    def _remember(self, key: str, judgement: Judgement) -> None:
        self._entries[key] = judgement
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        with path.open("rb") as lines:
            torn = False
            for line in lines:
                entry = _read_record(line)
                if entry is not None:
                    self._remember(*entry)
                torn = not line.endswith(b"\n")
        if torn:  # a killed writer: end its line, so that the next record starts on its own
            _append(self._file, b"\n")


def _append(file: int, data: bytes) -> None:
    if os.write(file, data) != len(data):
        raise OSError("the verdict cache could not be written: is the disk full?")


def _read_record(line: bytes) -> tuple[str, Judgement] | None:
    """A whole record, or None for a line that a killed writer left torn."""
    try:
        record = json.loads(line)
        key, verdict, detail = record["key"], Verdict(record["verdict"]), record["detail"]
        counterexample = record["counterexample"]
    except (ValueError, TypeError, KeyError):
        return None
    if not (isinstance(key, str) and isinstance(detail, str) and isinstance(counterexample, dict)):
        return None
    return key, Judgement(verdict, detail, counterexample)

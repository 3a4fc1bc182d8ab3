"""The programs that the judge runs for tests of functions: a program passes by its values and by nothing else.

A program under test runs alone: it gets the arguments of one call, and its value comes back as data. What is expected
is never in its process: calls are compared by the judge, and assertions run in a process of their own, where values
that came back stand in for the function. Patching `numpy.allclose`, reading the caller's constants, leaving early with
a good exit code, or returning an object that equals everything gains nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from selfplay.sandbox.judge import values

MARK = "selfplay-value:"
NEEDS_A_CALL = 77  # the exit code of a replay that has no value for the next call yet

_LIBRARY = f"""
import types as _types
_selfplay = _types.ModuleType("_selfplay")
exec(compile({inspect.getsource(values)!r}, "values.py", "exec"), _selfplay.__dict__)
import os as _os
def _selfplay_write(text, out=1, write=_os.write):
    data = ({MARK!r} + text + "\\n").encode()
    while data:
        data = data[write(out, data):]
"""

# What a program prints goes to standard error; the value alone to standard output.
_ALONE = _LIBRARY + "_selfplay_out = _os.dup(1)\n_os.dup2(2, 1)\n"

_CALL = """
def _selfplay_find(name):
    if name in globals():
        return globals()[name]
    return getattr(globals()["Solution"](), name)
_selfplay_arguments, _selfplay_named = _selfplay.loads({arguments!r})
_selfplay_value = _selfplay_find({name!r})(*_selfplay_arguments, **_selfplay_named)
_selfplay_write(_selfplay.dumps(_selfplay_value), _selfplay_out)
"""

_STAND_IN = """
_selfplay_known = {known!r}
def {name}(*arguments, **named):
    if _selfplay_known:
        return _selfplay.loads(_selfplay_known.pop(0))
    _selfplay_write(_selfplay.dumps([list(arguments), named]))
    _os._exit({needs})
"""


def call_program(program: str, function: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> str:
    """A program that calls a function of `program` (or of its class `Solution`) once and writes its value."""
    lines = program.splitlines()
    first = [line for line in lines if line.startswith("from __future__ ")]  # has to stay first
    rest = [line for line in lines if not line.startswith("from __future__ ")]
    call = _CALL.format(name=function, arguments=values.dumps([list(arguments), dict(named)]))
    return "\n".join([*first, _ALONE, *rest, call])


def replay_program(setup: str, function: str, source: str, known: Sequence[str], target: str | None) -> str:
    """The assertions of a test, with `known` values (JSON) in place of the function's; `target` is JSON too.

    It ends with `NEEDS_A_CALL` after writing the arguments of the first call for which there is no value.
    """
    parts = [_LIBRARY, setup, _STAND_IN.format(known=list(known), name=function, needs=NEEDS_A_CALL)]
    if target is not None:
        parts.append(f"target = _selfplay.loads({target!r})")
    return "\n".join([*parts, source])


def value_program(program: str, name: str) -> str:
    """A trusted program that writes the value of its variable `name` in the end."""
    return "\n".join([_ALONE, program, f"_selfplay_write(_selfplay.dumps({name}), _selfplay_out)"])


def written(stdout: str) -> str | None:
    """The one value that a run wrote, as JSON; None if it wrote none, something else, or more than is read."""
    whole = stdout.startswith(MARK) and stdout.endswith("\n") and stdout.count("\n") == 1
    return stdout.removeprefix(MARK).rstrip("\n") if whole else None

"""`python -m selfplay.sandbox.python [zygote|bubblewrap]`: which layers of protection this machine gives."""

from __future__ import annotations

import sys

from selfplay.sandbox.config import PYTHON_BACKENDS, PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import SandboxError


def main(backend: str = "zygote") -> int:
    if backend not in PYTHON_BACKENDS:
        print(f"error: {backend!r} is not allowed; it is {' or '.join(PYTHON_BACKENDS)}", file=sys.stderr)
        return 2
    try:
        sandbox = PythonSandbox(PythonConfig(backend=backend, slots=1, minimum=[]))
    except SandboxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    demanded, off = PythonConfig().minimum, 0
    for name, why in sandbox.layers().items():
        off += bool(why) and name in demanded
        print(f"{name:14}{'on' if not why else f'OFF ({why})'}{'  [demanded]' if name in demanded else ''}")
    sandbox.close()
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""One run inside bubblewrap: the layers that bwrap leaves to us, then the program. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from selfplay.sandbox.python import kernel
from selfplay.sandbox.python.confinement import Layers, attempt, confine, libraries, own_tmp
from selfplay.sandbox.python.zygote import execute, preload, read_all

REPORT = 3  # the descriptor of what the host hears of the layers


def main() -> None:
    """Entry point: settings, and the descriptors of the code and of the report. Never returns."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    text = read_all(int(sys.argv[2]))
    os.dup2(int(sys.argv[3]), REPORT)
    kernel.close_from(REPORT + 1)
    sys.path[:] = sys.path[1:]  # not where we were imported from
    preload(settings)
    settings["read"] = [path for path in (*libraries(settings["packages"]), "/dev") if os.path.exists(path)]
    layers: Layers = {}
    code = 70
    try:
        attempt(layers, "tmp", lambda: own_tmp(settings["uid"] or os.getuid(), settings["tmp_mib"]))
        os.chdir("/tmp")
        confine(settings, layers)
        os.write(REPORT, json.dumps(layers).encode())
        os.close(REPORT)
        code = execute(text)
    finally:
        os._exit(code)

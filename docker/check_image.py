"""`python docker/check_image.py [key=value ...]`: the last step of a build, and the first thing to try in a container.

Prints what the sandbox for model-written Python can put on here, by both its backends, and for every layer that is off
the flag of `docker run` that gives it; then whether Python, the packages and dafny are those that the project wants.
The settings are those of `python -m selfplay.train`; `cluster=gpu` looks for the packages of the GPU image.

A container's layers depend on how it is started, so a layer that is off fails nothing. Exit codes: 0 the image has what
it needs, 1 it lacks something, 2 bad settings.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from selfplay.config.errors import ConfigError
from selfplay.config.load import load_config
from selfplay.diagnosis import gpus, packages, provers, sandboxes
from selfplay.diagnosis.findings import Finding, State
from selfplay.sandbox.config import PYTHON_BACKENDS


def main(argv: Sequence[str]) -> int:
    """Print all findings; the exit code is about the image's own contents."""
    try:
        for backend in PYTHON_BACKENDS:
            print(f"sandbox.backend={backend}: layers here")
            show(layers(argv, backend))
        print("image:")
        found = contents(argv)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(found)
    return int(any(one.state is State.PROBLEM for one in found))


def layers(settings: Sequence[str], backend: str) -> list[Finding]:
    """The layers of one backend. A container with none of the demanded ones still shows those that it has."""
    return sandboxes.python_layers(load_config(["algo=anchorloop", f"sandbox.backend={backend}", *settings]))


def contents(settings: Sequence[str]) -> list[Finding]:
    """What a build decides: Python, the packages of the settings' device, and that dafny proves something."""
    config = load_config(["sandbox=dafny", *settings])
    project = packages.project()
    found = packages.python_version(project.python)
    found += packages.package_versions(config, project)
    found += gpus.flash_attention(config, project)
    return found + provers.dafny_lite(config) + provers.dafny(config)


def show(found: Sequence[Finding]) -> None:
    """A line a finding, and its fix below."""
    for one in found:
        print(f"  {one.state:8}{one.topic}: {one.what}")
        if one.fix:
            print(f"          fix: {one.fix}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

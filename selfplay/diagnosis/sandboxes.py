"""The sandbox for model-written Python: its layers on this machine, and for each that is off why and what helps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from selfplay.config.schema import Config
from selfplay.diagnosis.findings import Finding, ok, problem, warning
from selfplay.sandbox.config import PythonConfig

SANDBOX = "sandbox"
SYSCTLS = {  # file below /proc/sys -> the value with which ordinary users get no namespaces, and one with which they do
    "kernel/unprivileged_userns_clone": ("0", "1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user/max_user_namespaces": ("0", "10000"),
}
NAMESPACES = ("user", "mounts", "network", "ipc", "processes", "root", "tmp", "uid")
RESTS_ON = {  # what the self-test tries -> the layers that prevent it
    "files": ("root", "landlock"),
    "writes": ("root", "landlock"),
    "sockets": ("seccomp",),
    "programs": ("seccomp",),
    "forks": ("seccomp",),
    "memory": ("limits",),
}
FIXES = {
    "landlock": "Linux 5.13 or later with landlock in the boot parameter lsm= (cat /sys/kernel/security/lsm)",
    "seccomp": "a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
    "capabilities": "x86_64 or aarch64, and a container that lets a process drop its capabilities",
    "limits": "lower hard limits are in the way: ulimit -Ha shows them",
    "environment": "sandbox.backend=zygote",
}


def python_layers(config: Config) -> list[Finding]:
    """The layers against `sandbox.minimum`, where the config runs model-written Python."""
    if not isinstance(config.sandbox, PythonConfig):
        return []
    from selfplay.sandbox.python.pool import PythonSandbox
    from selfplay.sandbox.python.result import SandboxError

    try:
        sandbox = PythonSandbox(replace(config.sandbox, slots=1, minimum=[]))
        try:
            layers = sandbox.layers()
        finally:
            sandbox.close()
    except SandboxError as error:
        return [problem(SANDBOX, str(error), start_fix(str(error), config.sandbox))]
    return judged(layers, config.sandbox)


def judged(layers: Mapping[str, str], sandbox: PythonConfig) -> list[Finding]:
    """A finding for each layer that is off (a problem if it is demanded), and one for all that are on."""
    off = {name: why for name, why in layers.items() if why}
    on = [name for name in layers if name not in off]
    found = [ok(SANDBOX, f"{sandbox.name} ({sandbox.backend}): on: {', '.join(on)}")] if on else []
    for name, why in off.items():
        if name in sandbox.minimum:
            found.append(problem(SANDBOX, f"{name}: off ({why}), and sandbox.minimum demands it", fix(name, off)))
        else:
            found.append(warning(SANDBOX, f"{name}: off ({why}); sandbox.minimum does without", fix(name, off)))
    for name in sandbox.minimum:
        if name not in layers:
            known = f"sandbox.minimum=[...] of {', '.join(layers)}"
            found.append(problem(SANDBOX, f"{name}: sandbox.minimum demands it, and there is no such layer", known))
    return found


def fix(layer: str, off: Mapping[str, str]) -> str:
    """What puts a layer on. What the self-test tried is as strong as the layers it rests on."""
    for below in RESTS_ON.get(layer, ()):
        if below in off:
            return fix(below, off)
    if layer in NAMESPACES or ("root" in off and "PermissionError" in off[layer]):
        return namespaces_fix()  # without a root of its own a run sees the host's folders, which its user may not
    return FIXES.get(layer, "python -m selfplay.sandbox.python shows all layers; docs/python_sandbox.md explains them")


def namespaces_fix() -> str:
    """The kernel's setting that denies namespaces, else what does it in containers."""
    for file, (denying, allowing) in SYSCTLS.items():
        path = Path("/proc/sys", file)
        if os.geteuid() != 0 and path.is_file() and path.read_text().strip() == denying:
            return f"sysctl -w {file.replace('/', '.')}={allowing}"
    options = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    return f"in a container: docker run {options}" + (" --cap-add SYS_ADMIN" if os.geteuid() == 0 else "")


def start_fix(message: str, sandbox: PythonConfig) -> str:
    """What helps where the sandbox does not start at all."""
    if "bwrap`" in message:
        return "apt-get install bubblewrap; or sandbox.backend=zygote"
    if message.startswith("sandbox.packages"):
        return f"pip install {' '.join(sandbox.packages)}, in an environment that does not lie below /tmp"
    if "ModuleNotFoundError" in message:
        return "sandbox.preload=[...] of modules that are there"
    return namespaces_fix()

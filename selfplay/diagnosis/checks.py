"""All checks, in the order in which they are shown."""

from __future__ import annotations

from selfplay.config.schema import Config
from selfplay.diagnosis import backbone, gpus, machine, packages, provers, sandboxes, storage
from selfplay.diagnosis.findings import Check, Finding, run_checks


def diagnose(config: Config) -> list[Finding]:
    """Everything that is found about this machine for `config`; a check that fails is a warning."""
    return run_checks(checks(packages.project()), config)


def checks(project: packages.Project) -> list[Check]:
    """A check a line; `project` says which packages are wanted."""
    return [
        Check(packages.PYTHON, "Python's version", lambda _config: packages.python_version(project.python)),
        Check(packages.PACKAGES, "packages", lambda config: packages.package_versions(config, project)),
        Check(machine.MACHINE, "processors", machine.processors),
        Check(machine.MACHINE, "memory", machine.memory),
        Check(gpus.GPUS, "GPUs", gpus.gpus),
        Check(gpus.GPUS, "the cluster", gpus.cluster),
        Check(gpus.GPUS, "flash-attn", lambda config: gpus.flash_attention(config, project)),
        Check(backbone.BACKBONE, "the backbone", backbone.backbone),
        Check(sandboxes.SANDBOX, "the Python sandbox", sandboxes.python_layers),
        Check(provers.PROVERS, "dafny_lite", provers.dafny_lite),
        Check(provers.PROVERS, "dafny", provers.dafny),
        Check(provers.PROVERS, "verus", provers.verus),
        Check(storage.DISK, "output_dir", storage.output_folder),
        Check(storage.DISK, "the cache", storage.cache_folder),
        Check(storage.DISK, "temporary files", storage.temporary_folder),
        Check(storage.SHARED, "shared memory", storage.shared_memory),
        Check(machine.LIMITS, "open files", machine.open_files),
        Check(machine.LIMITS, "processes", machine.processes),
        Check(machine.LIMITS, "local ports", machine.ports),
    ]

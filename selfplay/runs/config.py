"""What a run writes beside its checkpoints, and where people watch it. Plain dataclasses, nothing heavy imported."""

from __future__ import annotations

from dataclasses import dataclass, field

CONSOLES = ("auto", "live", "plain", "off")
WANDB_MODES = ("disabled", "offline", "online")
LEVELS = ("debug", "info", "warning", "error")


@dataclass
class WandbConfig:
    """Weights & Biases. The mode is fixed before wandb starts, so `disabled` never talks to anything."""

    mode: str = "disabled"  # disabled | offline (files in the run directory) | online
    project: str = "selfplay"
    entity: str = ""  # empty: the account's default


@dataclass
class LoggingConfig:
    """The console, the files of a run directory that are there to be read, and TensorBoard and W&B beside them."""

    name: str = "default"
    console: str = "auto"  # auto: live on a terminal, plain lines elsewhere | live | plain | off
    plain_every_s: float = 10.0  # shortest time between two plain lines of one phase
    level: str = "info"  # of logs/driver.log
    rollouts_every: int = 1  # steps between two files in rollouts/; 0: none
    tensorboard: bool = False
    wandb: WandbConfig = field(default_factory=WandbConfig)

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value that cannot work."""
        for key, value, allowed in (
            ("console", self.console, CONSOLES),
            ("level", self.level, LEVELS),
            ("wandb.mode", self.wandb.mode, WANDB_MODES),
        ):
            if value not in allowed:
                options = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
                raise ValueError(f"{key}: {value!r} is not allowed; it is {options}")
        if self.plain_every_s < 0:
            raise ValueError(f"plain_every_s: {self.plain_every_s} is not allowed; it must be 0 or more")
        if self.rollouts_every < 0:
            raise ValueError(f"rollouts_every: {self.rollouts_every} is not allowed; it must be 0 or more")

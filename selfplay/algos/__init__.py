"""The systems. To add one: a package with a `run(config, run_dir) -> exit code`, a config dataclass, a line below."""

from __future__ import annotations

ALGORITHMS: dict[str, str] = {
    **dict.fromkeys(("ancora", "rft", "psv"), "selfplay.algos.ancora.driver:run"),
    **dict.fromkeys(("anchorloop", "agent0"), "selfplay.algos.anchorloop.driver:run"),
    "benchevolver": "selfplay.algos.benchevolver.driver:run",
}

"""The page that `--help` prints."""

from __future__ import annotations

from selfplay.config.load import conf_dir, group_options
from selfplay.config.schema import GROUPS

_PAGE = """\
python -m selfplay.train [key=value ...]

Trains a language model by self-play against a verifier. Settings are written key=value; those of a
component carry its name (algo.steps=100), and a group takes one of its members (backbone=tiny).

Groups (default marked *)
{groups}

Common settings
  seed=1                      everything random follows from it
  name=first-try              part of the run directory's name
  algo.steps=100              reinforcement steps
  algo.warmup.steps=200       supervised steps before them
  cluster.ranks_per_node=2    FSDP ranks
  logging.tensorboard=true    event files beside metrics.jsonl
  output_dir=outputs          where run directories go
  resume=auto                 continue the newest unfinished run of this algo, name and seed; fresh if none
  resume=once                 the same, and nothing to do if that run has finished: for batch jobs
  resume=outputs/ancora/...   continue that run, with the overrides it was started with
  stop_after=1                save and end after one outer iteration (a step; an iteration; a round)
  dry_run=true                print settings, placement and steps, start nothing

Flags
  --multirun, -m              one run after another for lists and ranges: seed=0,1,2 or 'seed=range(0,5)'
  --cfg job                   print the resolved settings as YAML
  --help, -h                  this page

Exit codes
  0 finished   1 failed   2 bad settings or data   3 stalled (watchdog)   4 a worker process was lost
  130 interrupted, state saved.  After 1, 3, 4 and 130 the same line with resume=auto continues.

The files behind the groups: {conf}
"""


def help_page() -> str:
    """Groups with their members as the files have them, common settings, flags and exit codes."""
    chosen = _defaults()
    lines = []
    for group in GROUPS:
        options = [f"{name}*" if name == chosen.get(group) else name for name in group_options(group)]
        note = "  (each algo picks its own)" if group == "sandbox" else ""
        lines.append(f"  {group:<11} {', '.join(options)}{note}")
    return _PAGE.format(groups="\n".join(lines), conf=conf_dir())


def _defaults() -> dict[str, str]:
    from omegaconf import OmegaConf

    root = OmegaConf.to_container(OmegaConf.load(conf_dir() / "config.yaml"))
    assert isinstance(root, dict)
    return {group: member for item in root["defaults"] if isinstance(item, dict) for group, member in item.items()}

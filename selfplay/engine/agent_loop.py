"""verl's agent loop around an episode: the sampling, the request seeds and the rows' own columns."""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import traceback
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from selfplay.engine.episode import Episode, Row
from selfplay.engine.sampling import ClientSampler


class RowOutput(AgentLoopOutput):
    """An output that keeps its own reward and adds its own columns.

    verl 0.9.1 copies the last output's reward over the session's other outputs and then asks each for `as_dict()`:
    so the reward waits in `extra_fields` and is written here. Every output must give the same columns, one value a row
    (a padding row copies them, so a per-token column would not fit).
    """

    def as_dict(self) -> dict[str, Any]:
        out = super().as_dict()
        columns = out["extra_fields"].pop("columns")
        out["rm_scores"] = torch.zeros_like(out["response_mask"], dtype=torch.float32)
        out["rm_scores"][-1] = columns["reward"]
        out["role"], out["group"], out["record"] = columns["role"], columns["group"], columns["record"]
        out["clip_high"] = torch.tensor(columns["clip_high"], dtype=torch.float32)  # 0-d, so that it batches to (B,)
        return out


def to_output(row: Row) -> RowOutput:
    columns = {
        "reward": float(row.reward),
        "role": row.role,
        "group": row.group,
        "record": json.dumps(row.record, ensure_ascii=False),
        "clip_high": math.nan if row.clip_high is None else row.clip_high,
    }
    return RowOutput(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids,
        response_mask=row.mask if row.trained else [0] * len(row.mask),
        response_logprobs=row.log_probs,
        reward_score=float(row.reward),  # set, or verl's reward loop is asked for one
        num_turns=1,
        metrics={"num_preempted": -1},
        extra_fields={**row.extra, "columns": columns, "reward_extra_info": {}},
    )


@lru_cache(maxsize=16)
def build_episode(factory: str, settings: str) -> Episode:
    """One episode per process and settings: `factory` is `module:function`, `settings` its JSON argument."""
    module, name = factory.split(":")
    episode: Episode = getattr(importlib.import_module(module), name)(json.loads(settings))
    return episode


class EpisodeLoop(AgentLoopBase):
    """Runs one session. verl makes one of these per session; what is dear lives in the cached episode."""

    def __init__(
        self,
        *args: Any,
        factory: str,
        settings: str,
        run_seed: int,
        deterministic: bool,
        error_log: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.factory, self.settings = factory, settings
        self.run_seed, self.deterministic, self.error_log = run_seed, deterministic, Path(error_log)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[RowOutput]:
        uid, session, step, index = (
            str(kwargs["uid"]),
            kwargs["session_id"],
            kwargs["global_steps"],
            int(kwargs["index"]),
        )
        seeds = (self.run_seed, step, index, session) if self.deterministic else None
        sampler = ClientSampler(self.server_manager, self.tokenizer, sampling_params, seeds)
        try:
            episode = build_episode(self.factory, self.settings)
            rows = await episode.run(json.loads(kwargs["task"]), session, uid, sampler)
            if not rows:
                raise ValueError("the episode returned no rows")
            return [to_output(row) for row in rows]
        except asyncio.CancelledError:
            raise
        except Exception:
            # verl only marks the prompt as failed: keep the reason where the driver finds it.
            with self.error_log.open("a", encoding="utf-8") as log:
                log.write(f"step {step} task {index} session {session}\n{traceback.format_exc()}\n")
            raise

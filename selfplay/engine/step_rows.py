"""What a step leaves behind for the driver: its rows with their texts, and verl's metrics as plain numbers."""

from __future__ import annotations

from typing import Any


def step_rows(trainer: Any, batch: Any) -> list[dict[str, Any]]:
    """The rows of a batch that `trainer` has just trained on, in order, with prompts and responses as ids and texts."""
    import transfer_queue as tq

    views = trainer.rows
    keys = [view.key for view in views]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"])
    decode = trainer.tokenizer.batch_decode
    prompt_ids, response_ids = ([ids.tolist() for ids in data[c].unbind()] for c in ("prompts", "responses"))
    # A prompt with its marks: without them the end of a question and the next role run together.
    prompts, responses = decode(prompt_ids), decode(response_ids, skip_special_tokens=True)
    return [
        {"key": v.key, "role": v.role, "group": v.group, "reward": v.reward, "tokens": v.tokens}
        | {"entropy": v.entropy, **v.record, "prompt": p, "response": r, "prompt_ids": pi, "response_ids": ri}
        for v, p, r, pi, ri in zip(views, prompts, responses, prompt_ids, response_ids, strict=True)
    ]


def plain(metrics: dict[str, Any]) -> dict[str, float]:
    """Numbers only, as Python floats."""
    out = {}
    for key, value in metrics.items():
        try:
            out[key] = float(value)
        except (TypeError, ValueError):
            continue
    return out

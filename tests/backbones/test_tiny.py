"""The embedded backbone as a folder: sizes that agree, texts that come back, files that repeat."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from selfplay.algos.ancora.demos import generate
from selfplay.algos.ancora.prompts import LABELS
from selfplay.backbones.config import BackboneConfig
from selfplay.backbones.tiny import build, load_corpus, train_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    build(BackboneConfig(), path)
    return path


def digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_vocabulary_and_embedding_agree(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == model.config.vocab_size == model.get_input_embeddings().num_embeddings
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))
    assert tokenizer.eos_token == "<|im_end|>"
    assert model.config.eos_token_id == tokenizer.eos_token_id
    assert model.config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert 1_000_000 <= model.num_parameters() <= 3_000_000
    assert model.config.hidden_size // model.config.num_attention_heads in (32, 64)


def test_the_loaded_tokenizer_is_the_one_that_was_made(folder: Path) -> None:
    made = train_tokenizer(load_corpus(), BackboneConfig().vocab_size)
    loaded = AutoTokenizer.from_pretrained(folder)
    assert loaded.get_vocab() == made.get_vocab()
    for demo in generate(2, 200):
        ids = made.encode(demo.response)
        assert loaded.encode(demo.response) == ids
        assert loaded.decode(ids, skip_special_tokens=True) == demo.response


def test_any_text_comes_back(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for text in ("method Größe(a: nat) returns (q: bool)", "  \n\t```rust\n", "x<y==>z ≤ 1000", "Check: Check:"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_labels_are_single_tokens_and_texts_are_short(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for label in LABELS[1:]:
        assert len(tokenizer.encode(f"\n{label}")) == 1
    responses = {role: [] for role in ("solver", "proposer")}  # type: dict[str, list[int]]
    prompts = []
    for demo in generate(4, 400):
        responses[demo.role].append(len(tokenizer.encode(demo.response)))
        prompts.append(len(tokenizer.apply_chat_template(demo.messages, add_generation_prompt=True, return_dict=False)))
    assert max(responses["solver"]) <= 70
    assert max(responses["proposer"]) <= 110
    assert max(prompts) <= 110


def test_the_first_layer_looks_back(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(generate(1, 1)[0].response, return_tensors="pt").input_ids
    maps = model(ids, output_attentions=True).attentions[0][0]  # heads x to x from
    for head, attention in enumerate(maps):
        for place in range(head + 1, attention.shape[0]):
            assert attention[place, place - head - 1] > 0.98


def test_chat_template(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": "solve\nA"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>user\nsolve\nA<|im_end|><|im_start|>assistant\n"
    answered = tokenizer.apply_chat_template([*messages, {"role": "assistant", "content": "B"}], tokenize=False)
    assert answered == text + "B<|im_end|>"


def test_one_seed_gives_bit_equal_files(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "same").mkdir()
    (tmp_path / "other").mkdir()
    build(BackboneConfig(), tmp_path / "same")
    build(BackboneConfig(seed=1), tmp_path / "other")
    mine, same, other = digests(folder), digests(tmp_path / "same"), digests(tmp_path / "other")
    assert mine == same
    assert {name for name in mine if mine[name] != other[name]} == {"model.safetensors"}


def test_a_corpus_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps({"phrases": ["lorem ipsum"], "texts": ["dolor dolor dolor", "sit"]}))
    tokenizer = train_tokenizer(load_corpus(str(path)), 300)
    assert len(tokenizer.encode("lorem ipsum")) == 1
    assert len(tokenizer) <= 300
    with pytest.raises(ValueError, match="vocab_size: 262 is not allowed"):
        train_tokenizer(load_corpus(str(path)), 262)


@pytest.mark.parametrize("text", ["{", "[]", '{"phrases": [], "texts": [1]}', '{"texts": []}'])
def test_bad_corpus_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json"):
        load_corpus(str(path))

"""Every published shape is read; what is missing or broken is one line; the hub is not asked unless it is wanted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from selfplay.benchmarks.benchmark import Item
from selfplay.benchmarks.catalogue import SUITES
from selfplay.benchmarks.code_task import BadData
from selfplay.benchmarks.sources import NoData, Window, load

BY_NAME = {one.name: one for members in SUITES.values() for one in members}
LIVE = {
    "question_id": "q1",
    "question_content": "Print 1.",
    "contest_date": "2025-02-03T00:00:00",
    "public_test_cases": "[]",
    "private_test_cases": json.dumps([{"input": "", "output": "1", "testtype": "stdin"}]),
}
SHAPES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "amc23": ({"id": 0, "question": "1+1?", "answer": 2.0}, "2", ()),
    "aime24": ({"id": 60, "problem": "p", "answer": "204"}, "204", ()),
    "aime25": ({"problem": "p", "answer": 70}, "70", ()),
    "math500": ({"problem": "p", "answer": "\\frac{1}{2}", "unique_id": "a/1"}, "\\frac{1}{2}", ()),
    "gsm8k": ({"question": "q", "answer": "so <<1+1=2>>2\n#### 1,002"}, "1,002", ()),
    "minerva": ({"question": "q", "answer": "[1,2)"}, "[1,2)", ()),
    "olympiadbench": ({"id": 1, "question": "q", "final_answer": ["$2$", "$3$"]}, "2, 3", ()),
    "supergpqa": ({"uuid": "u", "question": "q", "options": ["x", "y"], "answer_letter": "B"}, "B", ("x", "y")),
    "mmlu_pro": ({"question_id": 1, "question": "q", "options": ["x", "y"], "answer": "A"}, "A", ("x", "y")),
    "bbeh": ({"task": "t", "input": "q", "target": "(B)"}, "(B)", ()),
    "agieval": ({"question": "q", "options": ["(A)x", "(B)y"], "label": "B"}, "B", ("x", "y")),
    "dafny2verus": ({"id": "r", "spec": "fn f()"}, "", ()),
    "livecodebench": (LIVE, "", ()),
    "lcb_pro": (LIVE, "", ()),
}


def write(folder: Path, name: str, *records: dict[str, Any]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def only(folder: Path, name: str) -> Item:
    [item] = load(BY_NAME[name], str(folder)).items
    return item


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_read(tmp_path: Path, name: str) -> None:
    record, gold, options = SHAPES[name]
    write(tmp_path, name, record)
    item = only(tmp_path, name)
    assert (item.gold, item.options) == (gold, options)
    assert item.question


@pytest.mark.parametrize("name", SHAPES)
def test_a_missing_field_is_named_with_file_and_line(tmp_path: Path, name: str) -> None:
    record = SHAPES[name][0]
    broken = {key: value for key, value in record.items() if key not in ("question", "problem", "input", "spec")}
    broken.pop("question_content", None)
    write(tmp_path, name, record, broken)
    with pytest.raises(BadData, match=rf"{name}\.jsonl:2: no field .*"):
        load(BY_NAME[name], str(tmp_path))


def test_gpqa_mixes_its_options_the_same_way_each_time(tmp_path: Path) -> None:
    wrong = {f"Incorrect Answer {i}": f"w{i}" for i in (1, 2, 3)}
    questions = [{"Question": f"q{i}", "Correct Answer": "right", **wrong} for i in range(20)]
    write(tmp_path, "gpqa_diamond", *questions)
    items = load(BY_NAME["gpqa_diamond"], str(tmp_path)).items
    assert all(item.options["ABCD".index(item.gold)] == "right" for item in items)
    assert len({item.gold for item in items}) == 4
    assert items == load(BY_NAME["gpqa_diamond"], str(tmp_path)).items


def test_other_kinds_of_files(tmp_path: Path) -> None:
    record = {"problem": "p", "answer": "7"}
    (tmp_path / "aime24.json").write_text(json.dumps([record]))
    with gzip.open(tmp_path / "aime25.jsonl.gz", "wt") as file:
        file.write(json.dumps(record) + "\n")
    pandas.DataFrame([record]).to_parquet(tmp_path / "amc23.parquet")
    pandas.DataFrame([record]).to_csv(tmp_path / "math500.csv", index=False)
    assert [only(tmp_path, name).gold for name in ("aime24", "aime25", "amc23", "math500")] == ["7"] * 4


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", ":1: not JSON"), ("[1]", ":1: a list, not an object"), ("", "holds no question"), ("\xff\xfe", "math500")],
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "math500.jsonl").write_text(text, encoding="latin-1")
    with pytest.raises(BadData) as caught:
        load(BY_NAME["math500"], str(tmp_path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    record = {"problem": "p", "answer": "7", "unique_id": "a"}
    write(tmp_path, "math500", record, record)
    with pytest.raises(BadData, match="'a' occurs twice"):
        load(BY_NAME["math500"], str(tmp_path))


def test_the_window_chooses_by_day(tmp_path: Path) -> None:
    days = ("2024-12-31", "2025-01-01", "2025-05-01", "2025-05-02")
    write(tmp_path, "livecodebench", *[{**LIVE, "question_id": day, "contest_date": f"{day}T00:00:00"} for day in days])
    found = load(BY_NAME["livecodebench"], str(tmp_path), window=Window("2025-01-01", "2025-05-01"))
    assert [item.item_id for item in found.items] == ["2025-01-01", "2025-05-01"]


def test_missing_data_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NoData, match=r"^math500: no math500.jsonl in .*, and HuggingFaceH4/MATH-500 is not asked for"):
        load(BY_NAME["math500"], str(tmp_path))
    with pytest.raises(NoData, match=r"^lcb_pro: data.dir is not given, and no set of the hub"):
        load(BY_NAME["lcb_pro"], "")


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NoData, match=r"^math500: HuggingFaceH4/MATH-500@main: \w+") as caught:
        load(BY_NAME["math500"], "", offline=False)
    assert "\n" not in str(caught.value)


def test_the_checksum_is_the_files(tmp_path: Path) -> None:
    write(tmp_path, "math500", {"problem": "p", "answer": "7"})
    first = load(BY_NAME["math500"], str(tmp_path)).checksum
    write(tmp_path, "math500", {"problem": "p", "answer": "8"})
    assert load(BY_NAME["math500"], str(tmp_path)).checksum != first

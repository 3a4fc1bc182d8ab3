"""Root files: what is read, and one line for each thing that is wrong."""

from __future__ import annotations

import json

import pytest

from selfplay.curriculum.roots import Root, RootFileError, load_roots

GOOD = {"id": "double", "spec": "method M(x: int) returns (r: int)\n  ensures r == 2 * x"}


def write(tmp_path, *lines):
    path = tmp_path / "roots.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_fields_and_defaults(tmp_path):
    full = {"id": "b", "spec": "method N()\n ensures 1 == 1", "family": "sums", "grade": 3, "answer": "{ }"}
    assert load_roots(write(tmp_path, GOOD, "", full)) == [
        Root("double", GOOD["spec"]),
        Root("b", full["spec"], "sums", 3, "{ }"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a"', "2: not JSON: "),
        ("[1]", "2: expected an object, got list"),
        ({"spec": "s"}, "2: missing field 'id'"),
        ({"id": "a"}, "2: missing field 'spec'"),
        ({"id": 3, "spec": "s"}, "2: field 'id' must be a string, got int"),
        ({"id": "a", "spec": ["s"]}, "2: field 'spec' must be a string, got list"),
        ({"id": "a", "spec": "  \n"}, "2: field 'spec' is empty"),
        ({"id": "a", "spec": "s", "grade": "hard"}, "2: field 'grade' must be a whole number, got str"),
        ({"id": "a", "spec": "s", "grade": True}, "2: field 'grade' must be a whole number, got bool"),
        ({"id": "a", "spec": "s", "family": 1}, "2: field 'family' must be a string, got int"),
        ({"id": "a", "spec": "s", "answer": ""}, "2: field 'answer' must be a non-empty string or null"),
        ({"id": "a", "spec": "s", "grad": 1}, "2: unknown field 'grad'; allowed: id, spec, answer, family, grade"),
        ({"id": "double", "spec": "s"}, "2: id repeats that of line 1"),
        ({"id": "a", "spec": GOOD["spec"].replace("\n ", "")}, "2: spec repeats that of line 1"),
        ({"id": "a", "spec": "refuse me"}, "2: spec of 'a' is refused: vacuous"),
    ],
)
def test_a_bad_line_is_one_line_naming_file_and_line(tmp_path, line, message):
    path = write(tmp_path, GOOD, line)
    with pytest.raises(RootFileError) as error:
        load_roots(path, check=lambda spec: "vacuous" if "refuse" in spec else None)
    assert str(error.value).startswith(f"{path}:{message}")
    assert "\n" not in str(error.value)


def test_unusable_files(tmp_path):
    with pytest.raises(RootFileError, match="holds no root specification"):
        load_roots(write(tmp_path, ""))
    with pytest.raises(RootFileError, match="cannot be read"):
        load_roots(tmp_path / "missing.jsonl")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RootFileError, match="cannot be read"):
        load_roots(binary)

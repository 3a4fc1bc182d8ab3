"""`scripts/container_steps.py`: how it reads a Dockerfile, and what COPY, ENV, ARG and stages leave behind."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from steps_script import ROOT, script


def written(folder: Path, text: str) -> Path:
    path = folder / "Dockerfile"
    path.write_text(text)
    return path


def builder(folder: Path, **given: Any) -> Any:
    """A builder whose base is a folder with a user and little else."""
    base = folder / "base"
    (base / "etc").mkdir(parents=True)
    (base / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1000:1001::/home/ada:/bin/sh\n")
    options = {"base": base, "work": folder / "work", "show": [], "env": [], "arg": [], "keep": False} | given
    return script().Builder(argparse.Namespace(**options))


def test_lines_are_joined_and_comments_left_out(tmp_path: Path) -> None:
    text = "# first\nFROM debian:12\n\nRUN a \\\n    # why\n    && b \\\n    && c\nUSER 1000\n"
    steps = script().read_steps(written(tmp_path, text))
    found = [(step.line, step.word, step.rest) for step in steps]
    assert found == [(2, "FROM", "debian:12"), (4, "RUN", "a && b && c"), (8, "USER", "1000")]


def test_what_is_no_instruction_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(script().Unusable, match=r"Dockerfile:2: \?\?: no instruction"):
        script().read_steps(written(tmp_path, "FROM debian:12\n?? what\n"))
    with pytest.raises(script().Unusable, match="No such file"):
        script().read_steps(tmp_path / "none")


@pytest.mark.parametrize("line", ["VOLUME /data", "CMD python -m selfplay.train", "COPY outputs/ /app/outputs/"])
def test_what_it_does_not_do_is_refused(line: str, tmp_path: Path) -> None:
    work = builder(tmp_path)
    base, step = script().read_steps(written(tmp_path, f"FROM debian:12\n{line}\n"))
    work.take(base)
    with pytest.raises(script().Unusable):
        work.take(step)


def test_nothing_comes_before_a_base(tmp_path: Path) -> None:
    with pytest.raises(script().Unusable, match="line 1: WORKDIR before FROM"):
        builder(tmp_path).take(*script().read_steps(written(tmp_path, "WORKDIR /app\n")))


def test_variables_users_and_folders(tmp_path: Path) -> None:
    text = (
        "FROM debian:12\nARG UID=7\nARG JOBS=4\nENV HERE=/opt/here PATH=/opt/bin:$PATH\nWORKDIR $HERE\nWORKDIR more\n"
        'USER $UID\nSHELL ["/bin/bash", "-c"]\nENTRYPOINT ["tini", "--"]\n'
    )
    work = builder(tmp_path, arg=["UID=1000"])
    for step in script().read_steps(written(tmp_path, text)):
        assert work.take(step) == 0
    image = work.stages["image"]
    assert (image.user, image.args["JOBS"], image.folder) == ("1000", "4", "/opt/here/more")
    assert image.env == {"HERE": "/opt/here", "PATH": f"/opt/bin:{script().PATH}"}
    assert (image.root / "opt/here/more").is_dir()
    assert (image.shell, image.entrypoint) == (("/bin/bash", "-c"), ["tini", "--"])
    assert script().account(image.root, image.user) == (1000, 1001, "/home/ada")
    with pytest.raises(script().Unusable, match="USER 7"):
        script().account(image.root, "7")


def test_stages_have_roots_of_their_own_and_the_base_is_left_alone(tmp_path: Path) -> None:
    text = (
        "FROM debian:12 AS first\nWORKDIR /app\nCOPY conf/ conf/\nCOPY LICENSE README.md ./\n"
        "FROM debian:12\nCOPY --from=first /app/conf /app/conf\nCOPY --from=first /app/LICENSE /app/\n"
    )
    work = builder(tmp_path)
    for step in script().read_steps(written(tmp_path, text)):
        assert work.take(step) == 0
    first, image = work.stages["first"].root, work.stages["image"].root
    assert (first / "app/README.md").read_bytes() == (ROOT / "README.md").read_bytes()
    assert (image / "app/conf/config.yaml").read_bytes() == (ROOT / "conf/config.yaml").read_bytes()
    assert (image / "app/LICENSE").is_file()
    assert not (image / "app/README.md").exists()
    assert not (tmp_path / "base/app").exists()
    again = builder(tmp_path / "again", base=tmp_path / "base", work=tmp_path / "work")
    with pytest.raises(script().Unusable, match="is there already"):
        again.take(script().read_steps(written(tmp_path, text))[0])


def test_the_context_leaves_caches_out(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__" / "a.cpython-311.pyc").touch()
    (folder / "old.pyc").touch()
    (folder / "a.py").touch()
    script().copied(folder, tmp_path / "from_context", into=False, from_context=True)
    script().copied(folder, tmp_path / "from_stage", into=False, from_context=False)
    assert sorted(path.name for path in (tmp_path / "from_context").rglob("*")) == ["a.py"]
    assert len(list((tmp_path / "from_stage").rglob("*"))) == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"base": "nowhere"}, "no system lies there"),
        ({"show": ["/no/such/file:/opt/file"]}, "--show /no/such/file"),
        ({"env": ["PIP_CERT"]}, "PIP_CERT: not NAME=VALUE"),
    ],
)
def test_arguments_that_cannot_be_used(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(script().Unusable, match=message):
        builder(tmp_path, **given)

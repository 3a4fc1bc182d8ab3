"""The images' Dockerfiles: the rules that hadolint has for them, and that what they name is there.

hadolint itself is run where it is installed. The rules that matter most are checked here too, by hadolint's numbers.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from steps_script import ROOT, script

from selfplay.diagnosis.packages import LOCK, Project

DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
CPU, GPU = ROOT / "docker" / "cpu.Dockerfile", ROOT / "docker" / "gpu.Dockerfile"
GPU_LOCK = ROOT / "requirements" / "gpu.lock.txt"

every_dockerfile = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)


def steps(dockerfile: Path, word: str = "") -> list[Any]:
    return [step for step in script().read_steps(dockerfile) if word in ("", step.word)]


def stages(dockerfile: Path) -> list[list[Any]]:
    """The steps of each stage, FROM first."""
    found: list[list[Any]] = []
    for step in steps(dockerfile):
        if step.word == "FROM":
            found.append([])
        found[-1].append(step)
    return found


def copies(dockerfile: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Flags and sources of each COPY."""
    for step in steps(dockerfile, "COPY"):
        words = shlex.split(step.rest)
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        yield flags, [word for word in words if not word.startswith("--")][:-1]


def pins(lock: Path) -> dict[str, str]:
    """Name -> version. A line that is no pin is an error."""
    found = {}
    for line in lock.read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = re.fullmatch(r"([\w.-]+)==([\w.+!]+)", line).groups()  # type: ignore[union-attr]
            found[name.lower().replace("_", "-")] = version
    return found


def test_there_are_the_two_images() -> None:
    assert DOCKERFILES == [CPU, GPU]


@every_dockerfile
def test_hadolint_finds_nothing(dockerfile: Path) -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed; the rules below are checked without it")
    done = subprocess.run(["hadolint", str(dockerfile)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every_dockerfile
def test_bases_have_a_version_and_are_the_same_system(dockerfile: Path) -> None:
    """DL3006, DL3007."""
    bases = {step.rest.split()[0] for step in steps(dockerfile, "FROM")}
    assert bases == {"debian:12.11-slim"}


@every_dockerfile
def test_ends_as_an_ordinary_user_with_a_number(dockerfile: Path) -> None:
    """DL3002, DL3066; and nothing but the check is run as that user's step."""
    last = stages(dockerfile)[-1]
    users = [index for index, step in enumerate(last) if step.word == "USER"]
    assert len(users) == 1
    assert last[users[0]].rest == "$UID"
    assert [step.rest for step in last if step.word == "ARG"] == ["UID=1000"]
    after = [step for step in last[users[0] :] if step.word == "RUN"]
    assert [step.rest.split()[:2] for step in after] == [["python", "/app/docker/check_image.py"]]


@every_dockerfile
def test_system_packages_leave_nothing_behind(dockerfile: Path) -> None:
    """DL3009, DL3014, DL3015: no lists, no questions, nothing that is only recommended."""
    installing = [step.rest for step in steps(dockerfile, "RUN") if "apt-get install" in step.rest]
    assert len(installing) == 2
    for text in installing:
        assert text.startswith("apt-get update && apt-get install -y --no-install-recommends ")
        assert text.endswith("&& rm -rf /var/lib/apt/lists/*")


@every_dockerfile
def test_every_stage_stops_at_a_failing_pipe(dockerfile: Path) -> None:
    """DL4006."""
    for stage in stages(dockerfile):
        assert (stage[1].word, stage[1].rest) == ("SHELL", '["/bin/bash", "-o", "pipefail", "-c"]')


@every_dockerfile
def test_copies_and_never_adds_and_starts_in_exec_form(dockerfile: Path) -> None:
    """DL3020, DL3025, DL3000."""
    assert not steps(dockerfile, "ADD")
    for step in [*steps(dockerfile, "ENTRYPOINT"), *steps(dockerfile, "CMD")]:
        assert script().exec_form(step.rest)
    assert all(step.rest.startswith("/") for step in steps(dockerfile, "WORKDIR"))


@every_dockerfile
def test_python_packages_come_from_a_list_or_have_a_version(dockerfile: Path) -> None:
    """DL3013, DL3042."""
    for step in steps(dockerfile, "RUN"):
        for command in re.findall(r"pip install ([^&]*)", step.rest):
            words = shlex.split(command)
            assert "--no-deps" in words
            named = [word for word in words if not word.startswith("-") and word not in (".", "off")]
            lists = [words[index + 1] for index, word in enumerate(words) if word == "-r"]
            assert all("==" in word for word in named if word not in lists), command
    assert any("PIP_NO_CACHE_DIR=1" in step.rest for step in steps(dockerfile, "ENV"))


@every_dockerfile
def test_what_is_copied_is_there_and_in_the_context(dockerfile: Path) -> None:
    names = {step.rest.split()[2] for step in steps(dockerfile, "FROM") if " AS " in step.rest}
    for flags, sources in copies(dockerfile):
        if "from" in flags:
            assert flags["from"] in names
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert script().taken_in(source, ROOT / ".dockerignore"), source


@every_dockerfile
def test_what_the_user_may_run_is_the_user_s(dockerfile: Path) -> None:
    """Python writes its caches beside the code."""
    last = stages(dockerfile)[-1]
    for step in last:
        if step.word == "COPY":
            assert "--chown=selfplay:selfplay" in step.rest


@every_dockerfile
def test_the_project_is_whole(dockerfile: Path) -> None:
    """What the package is made of lies in the image, and what the last step runs."""
    last = " ".join(step.rest for step in stages(dockerfile)[-1] if step.word == "COPY")
    for name in ("pyproject.toml", "setup.py", "conf/", "selfplay/", "requirements/", "docker/"):
        assert f" {name} " in last


@every_dockerfile
def test_no_secret_is_asked_for(dockerfile: Path) -> None:
    for step in [*steps(dockerfile, "ARG"), *steps(dockerfile, "ENV")]:
        assert not re.search(r"(?i)token|secret|password|api_key|proxy|index_url", step.rest)


def test_the_context_has_neither_runs_nor_history() -> None:
    for name in (".git", ".venv", "outputs", "multirun", ".env"):
        assert not script().taken_in(name, ROOT / ".dockerignore")
    assert "__pycache__" in script().ignored_names(ROOT / ".dockerignore")


def test_the_cpu_image_installs_the_list_that_make_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lock = re.search(r"^LOCK\s*:=\s*(\S+)$", makefile, re.M).group(1)  # type: ignore[union-attr]
    assert lock == str(LOCK)
    installing = [step.rest for step in steps(CPU, "RUN") if "setup_env.py" in step.rest]
    assert installing == [f"python3.11 scripts/setup_env.py {lock} .venv/.ready-image"]
    assert "scripts/setup_env.py $(LOCK) $@" in makefile


def test_the_gpu_image_installs_the_list_for_gpus_and_flash_attn_last() -> None:
    text = " ".join(step.rest for step in steps(GPU, "RUN"))
    others, flash = text.index("-r others.txt"), text.index("--no-build-isolation -r flash-attn.txt")
    assert others < flash
    assert text.count(str(GPU_LOCK.relative_to(ROOT))) == 2


def test_the_list_for_gpus_is_what_the_project_asks_for() -> None:
    pinned, project = pins(GPU_LOCK), Project(ROOT)
    for line in project.requirements("gpu"):
        assert line.specifier.contains(pinned[line.name]), line
    assert "transferqueue" in pinned  # verl's trainer imports it and asks for it only with an extra of its own


def test_the_list_for_gpus_holds_all_that_its_packages_need() -> None:
    """For those that are installed here in the same version; the others' needs were met when the list was made."""
    from importlib.metadata import PackageNotFoundError, distribution

    pinned, looked_at = pins(GPU_LOCK), 0
    for name, version in pinned.items():
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        if here.version != version:
            continue
        looked_at += 1
        for line in map(Requirement, here.requires or ()):
            if line.marker is None or line.marker.evaluate({"extra": ""}):
                need = line.name.lower().replace("_", "-").replace(".", "-")
                assert need in pinned, f"{name} needs {line}"
                assert line.specifier.contains(pinned[need], prereleases=True), f"{name} needs {line}"
    assert looked_at > 100


def test_both_lists_have_the_same_versions_where_gpus_do_not_matter() -> None:
    cpu, gpu = pins(ROOT / LOCK), pins(GPU_LOCK)
    different = {name for name in cpu.keys() & gpu.keys() if cpu[name] != gpu[name]}
    assert different == {"apache-tvm-ffi", "torch", "transformers", "triton", "xgrammar", "z3-solver"}


def test_the_compiler_on_the_list_is_that_of_the_libraries() -> None:
    """nvcc refuses headers of another version of CUDA."""
    pinned = pins(GPU_LOCK)
    version = pinned["cuda-toolkit"].rpartition(".")[0]
    for name in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl", "nvidia-cuda-runtime"):
        assert pinned[name].startswith(f"{version}."), name

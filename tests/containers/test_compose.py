"""The cluster of containers: the file parses, names what exists, and has commands that Ray and the run take."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from selfplay.config.load import load_config
from selfplay.config.validate import problems

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
HEADS, WORKERS = {"gpu": "head", "cpu": "head-cpu"}, {"gpu": "worker", "cpu": "worker-cpu"}
UNITS = {"mb": 2**20, "gb": 2**30}

every_service = pytest.mark.parametrize("name", SERVICES)
every_kind = pytest.mark.parametrize("kind", HEADS)


def option(name: str, flag: str) -> str:
    """The value of a flag in a service's command; "" if it is not there."""
    found = [word.partition("=")[2] for word in SERVICES[name]["command"] if word.split("=")[0] == flag]
    return found[0] if found else ""


def size(text: str) -> int:
    """Bytes of `2gb`."""
    number, unit = re.fullmatch(r"(\d+)(mb|gb)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS[unit]


def runs() -> list[list[str]]:
    """The settings of the training commands in the file's head."""
    text = FILE.read_text().replace("\\\n#", " ")
    return [shlex.split(line) for line in re.findall(r"python -m selfplay\.train (.*)", text)]


def test_each_kind_has_a_head_and_a_worker() -> None:
    assert set(SERVICES) == {*HEADS.values(), *WORKERS.values()}
    for kind in HEADS:
        assert SERVICES[HEADS[kind]]["profiles"] == SERVICES[WORKERS[kind]]["profiles"] == [kind]


@every_service
def test_is_built_from_a_dockerfile_that_exists(name: str) -> None:
    build = SERVICES[name]["build"]
    context = (FILE.parent / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).is_file()
    (kind,) = SERVICES[name]["profiles"]
    assert build["dockerfile"] == f"docker/{kind}.Dockerfile"
    assert SERVICES[name]["image"] == f"selfplay:{kind}"


@every_service
def test_publishes_nothing_and_has_no_rights_to_spare(name: str) -> None:
    service = SERVICES[name]
    assert not {"ports", "privileged", "cap_add", "network_mode", "pid", "ipc", "user"} & set(service)
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges=true" in service["security_opt"]


@every_service
def test_shares_outputs_and_cache_where_the_image_has_them(name: str) -> None:
    mounts = dict(volume.split(":") for volume in SERVICES[name]["volumes"])
    assert set(mounts) == set(COMPOSE["volumes"])
    dockerfile = (ROOT / SERVICES[name]["build"]["dockerfile"]).read_text()
    assert all(f" {folder}" in dockerfile for folder in mounts.values())
    assert f"SELFPLAY_CACHE_DIR={mounts['cache']}" in dockerfile
    assert mounts["outputs"] == "/data/outputs"
    assert "WORKDIR /data\n" in dockerfile


@every_service
def test_shared_memory_holds_the_object_store_twice(name: str) -> None:
    assert size(SERVICES[name]["shm_size"]) >= 2 * int(option(name, "--object-store-memory"))


@cache
def ray_flags() -> set[str]:
    """The flags of `ray start`, as it prints them."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return set(re.findall(r"^\s+(--[a-z-]+)", done.stdout, re.M))


@every_service
def test_ray_takes_the_command(name: str) -> None:
    command = SERVICES[name]["command"]
    assert command[:2] == ["ray", "start"]
    assert command[-1] == "--block"  # or the container ends at once
    assert {word.partition("=")[0] for word in command[2:]} <= ray_flags()


@every_kind
def test_the_worker_joins_the_head_when_it_answers(kind: str) -> None:
    head, worker = HEADS[kind], WORKERS[kind]
    assert option(worker, "--address") == f"{head}:{option(head, '--port')}"
    assert SERVICES[worker]["depends_on"] == {head: {"condition": "service_healthy"}}
    assert option(head, "--port") in SERVICES[head]["healthcheck"]["test"][-1]


def test_head_and_worker_have_different_gpus() -> None:
    cards = []
    for name in (HEADS["gpu"], WORKERS["gpu"]):
        (device,) = SERVICES[name]["deploy"]["resources"]["reservations"]["devices"]
        assert device["capabilities"] == ["gpu"]
        cards += device["device_ids"]
    assert len(cards) == len(set(cards)) == 2


@every_kind
def test_the_run_that_the_file_shows_fits_the_cluster(kind: str) -> None:
    settings = next(words for words in runs() if f"cluster={kind}" in words)
    config = load_config(settings)
    assert problems(config) == []
    assert config.cluster.nodes == 2
    assert config.cluster.ranks_per_node == 1
    assert config.cluster.ray_address == f"{HEADS[kind]}:{option(HEADS[kind], '--port')}"
    if kind == "cpu":  # logical ones, one for each rank
        assert option(HEADS[kind], "--num-gpus") == option(WORKERS[kind], "--num-gpus") == "1"

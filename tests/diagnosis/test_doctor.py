"""The doctor: the command as a person runs it, and its checks under conditions that are made for them."""

from __future__ import annotations

import json
import os
import pty
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from selfplay.config.errors import ConfigError
from selfplay.config.load import load_config
from selfplay.diagnosis import findings, gpus
from selfplay.diagnosis.backbone import missing_files
from selfplay.diagnosis.findings import Check, Finding, State, run_checks
from selfplay.diagnosis.machine import memory
from selfplay.diagnosis.packages import Project, package_versions, python_version, way_to_install
from selfplay.diagnosis.storage import folder, shared_mib

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "selfplay.doctor"]
VERUS = ["sandbox=verus", "algo.roots=roots.jsonl", "algo.eval.heldout=heldout.jsonl"]
ENDPOINT = ["algo=benchevolver", "algo.rl.steps=0", "algo.endpoints.big.base_url=http://host:8000/v1"]
ENDPOINT += ["algo.endpoints.big.model=m", "algo.roles.targets=[big]"]
ENDPOINT += [f"algo.roles.{role}=big" for role in ("proposer", "brute_force", "oracle", "quality")]


def doctor(
    *words: str,
    cwd: Path = ROOT,
    environ: Mapping[str, str] | None = None,
    inside: Sequence[str] = (),
    first: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """The command; `environ` on top of the present one, `inside` a command that runs it, `first` in the child."""
    return subprocess.run(
        [*inside, *COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "400", **(environ or {})},
        preexec_fn=first,
        timeout=300,
    )


def found(ran: subprocess.CompletedProcess[str], topic: str) -> list[dict[str, str]]:
    """What `--json` says of a topic."""
    assert ran.returncode in (0, 1), ran.stderr
    return [one for one in json.loads(ran.stdout) if one["topic"] == topic]


def bad(ran: subprocess.CompletedProcess[str], topic: str) -> list[tuple[str, str, str]]:
    """State, text and fix of a topic's warnings and problems."""
    return [(one["state"], one["what"], one["fix"]) for one in found(ran, topic) if one["state"] != "ok"]


def state_of(one: Mapping[str, str]) -> str:
    return one["state"]


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------- the command


def test_the_default_config_can_run_here_and_nothing_is_left_behind(tmp_path: Path) -> None:
    ran = doctor(cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.splitlines()[-1].startswith(
        "algo=ancora backbone=tiny sandbox=dafny_lite cluster=cpu can run here"
    )
    for topic in ("Python", "packages", "machine", "GPUs", "backbone", "provers", "disk", "shared memory", "limits"):
        assert topic in ran.stdout
    assert ran.stderr == ""
    assert not list(tmp_path.iterdir())


def test_json_holds_all_findings_and_a_fix_for_each_that_needs_one() -> None:
    ran = doctor("--json", "cluster=a100x8_80g", "backbone=qwen3_4b_base", "algo.warmup.steps=0", *VERUS)
    everything = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert {"ok", "problem"} <= set(map(state_of, everything))
    for one in everything:
        assert bool(one["fix"]) == (one["state"] != "ok"), one
        assert "\n" not in one["what"] + one["fix"]


@pytest.mark.parametrize(
    ("word", "taken"),
    [
        ("cluster=a100x8_80g", "8 GPUs (8 ranks)"),
        ("experiment=anchorloop_paper", "8 GPUs (7 ranks and 1 for the frozen server)"),
    ],
)
def test_too_few_gpus_is_a_problem_with_their_number(word: str, taken: str) -> None:
    ran = doctor("--json", word, environ={"CUDA_VISIBLE_DEVICES": ""})
    assert ran.returncode == 1
    state, what, fix = bad(ran, "GPUs")[0]
    assert (state, what.startswith(f"cluster=a100x8_80g takes {taken}; here: ")) == ("problem", True)
    assert fix.startswith("cluster=cpu; or a machine with 8 GPUs")


def test_verus_that_is_not_there_says_how_it_is_found() -> None:
    ran = doctor(*VERUS, environ={"VERUS_PATH": "/nowhere/verus"})
    assert ran.returncode == 1
    assert "sandbox.path=/nowhere/verus: no such executable" in ran.stdout
    assert "sandbox.path or VERUS_PATH" in ran.stdout
    assert ran.stdout.splitlines()[-1].endswith("cannot run here: 1 problem")


@pytest.mark.parametrize(
    ("word", "line"), [("seeed=1", "did you mean seed?"), ("--jsn", "there are --help and --json")]
)
def test_bad_settings_are_one_line_and_code_2(word: str, line: str) -> None:
    ran = doctor(word)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {word}: ")
    assert line in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_python_without_the_packages_is_told_about_the_environment() -> None:
    command = [sys.executable, "-S", "-m", "selfplay.doctor"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=60)
    assert ran.returncode == 1
    assert "lacks what selfplay needs: No module named" in ran.stderr
    assert "make setup" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from selfplay.doctor import main\n"
        "main(['--json', 'cluster=gpu'])\n"
        "print({'torch', 'ray', 'verl', 'vllm', 'transformers'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.splitlines()[-1] == "set()"


def test_a_search_without_an_engine_needs_no_gpus() -> None:
    ran = doctor("--json", *ENDPOINT, "cluster=a100x8_80g", environ={"CUDA_VISIBLE_DEVICES": ""})
    assert ran.returncode == 0, ran.stdout
    assert not bad(ran, "GPUs")
    assert found(ran, "backbone")[0]["what"].startswith("not needed by this config")


def test_a_check_that_raises_is_a_warning_and_the_others_go_on() -> None:
    def broken(_config: object) -> list[Finding]:
        raise OSError("no such\nthing")

    checks = [Check("disk", "the disk", broken), Check("GPUs", "GPUs", lambda _config: [findings.ok("GPUs", "two")])]
    first, second = run_checks(checks, load_config([]))
    assert (first.topic, first.state) == ("disk", State.WARNING)
    assert first.what == "the disk could not be checked: OSError: no such thing"
    assert second == Finding("GPUs", State.OK, "two")


def test_a_problem_without_a_fix_cannot_be_said() -> None:
    with pytest.raises(ValueError, match="warnings and problems have one"):
        Finding("disk", State.PROBLEM, "full")


# ---------------------------------------------------------------- packages


def test_a_lock_with_other_packages_is_seen_by_the_command_in_its_clone(tmp_path: Path) -> None:
    for name in ("selfplay", "conf", "requirements", "pyproject.toml"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(tmp_path)], check=True)
    lock = tmp_path / "requirements" / "cpu.lock.txt"
    pins = [line for line in lock.read_text().splitlines() if not line.startswith("rich==")]
    lock.write_text("\n".join([*pins, "rich==0.1"]))
    ran = doctor("--json", cwd=tmp_path)
    assert ran.returncode == 0, "another version may do"
    (state, what, fix) = bad(ran, "packages")[0]
    assert (state, what.endswith("(wanted ==0.1)")) == ("warning", True)
    assert what.startswith("1 in other versions than tested: rich ")
    assert fix == "make setup, then .venv/bin/python -m selfplay.doctor"
    lock.write_text("\n".join([*pins, "no-such-package-as-this==1.0"]))
    ran = doctor("--json", cwd=tmp_path)
    assert ran.returncode == 1
    assert bad(ran, "packages")[0][:2] == ("problem", "1 missing: no-such-package-as-this==1.0")


def test_packages_for_tests_may_be_missing_and_many_are_counted(tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(text.replace('"pytest==', '"no-such-tool==1",\n    "pytest=='))
    (tmp_path / "requirements").mkdir()
    names = "".join(f"no-such-package-{i}==1\n" for i in range(9))
    (tmp_path / "requirements" / "cpu.lock.txt").write_text(f"# a comment\nno-such-tool==1\n{names}")
    missing, idle = package_versions(load_config([]), Project(tmp_path))
    assert missing.what.startswith("9 missing: no-such-package-0==1, ")
    assert missing.what.endswith(" and 3 more")
    assert (idle.state, idle.what) == (State.WARNING, "missing, for tests only: no-such-tool==1")


def test_an_installed_package_is_held_against_its_own_metadata(tmp_path: Path) -> None:
    nowhere = Project(tmp_path)
    (one,) = package_versions(load_config([]), nowhere)
    assert one.state is State.OK
    assert one.what.endswith("all as the project's requirements has them")
    missing = package_versions(load_config(["cluster=gpu"]), nowhere)[0]
    if missing.state is not State.OK:
        assert missing.fix == "pip install 'selfplay[gpu]'"


def test_make_is_told_that_a_complete_environment_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv").mkdir()
    assert way_to_install(tmp_path, "cpu", locked=True).startswith("make setup, then .venv/bin/python")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert way_to_install(tmp_path, "cpu", locked=True) == "make setup"
    (tmp_path / ".venv" / ".ready-0123").touch()
    assert way_to_install(tmp_path, "cpu", locked=True) == "rm .venv/.ready-*; make setup"


def test_python_is_held_against_what_the_project_says() -> None:
    (fine,) = python_version(Project(ROOT).python)
    (wrong,) = python_version(">=3.12")
    assert (fine.state, wrong.state) == (State.OK, State.PROBLEM)
    assert ">=3.12 is needed" in wrong.what


# ---------------------------------------------------------------- GPUs

TWO = "0, GPU-1a2b, NVIDIA A100-SXM4-80GB, 81920, 550.54.14\n1, GPU-3c4d, NVIDIA A100-SXM4-80GB, 81920, 550.54.14"


def test_two_gpus_are_enough_for_two_ranks_and_the_ways_out_fit_them(tmp_path: Path) -> None:
    script(tmp_path / "nvidia-smi", f"echo '{TWO}'")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "0,1"}
    enough = doctor("--json", "cluster=gpu", "cluster.ranks_per_node=2", environ=environ)
    assert found(enough, "GPUs")[0]["what"] == (
        "2 x NVIDIA A100-SXM4-80GB (80 GiB), driver 550.54.14; this config takes 2"
    )
    few = doctor("--json", "cluster=a100x8_80g", environ=environ)
    assert bad(few, "GPUs")[0][2].startswith("cluster=gpu cluster.ranks_per_node=2; or cluster=cpu")
    anchor = doctor("--json", "algo=anchorloop", "cluster=gpu", "cluster.ranks_per_node=2", environ=environ)
    state, what, fix = bad(anchor, "GPUs")[0]
    assert (state, "takes 3 GPUs (2 ranks and 1 for the frozen server)" in what) == ("problem", True)
    assert fix.startswith("cluster=gpu cluster.ranks_per_node=1; or ")


def test_cuda_visible_devices_hides_gpus() -> None:
    both = [gpus.Gpu(str(i), f"GPU-{i}a", "A100", 81920, "550") for i in range(2)]
    for listed, seen in {"": 0, "1": 1, "0,1": 2, "GPU-1a": 1, "-1": 0, "0,7,1": 1}.items():
        assert len(gpus.visible(both, {"CUDA_VISIBLE_DEVICES": listed})) == seen, listed
    assert gpus.visible(both, {}) == both


@pytest.mark.parametrize(("does", "said"), [("echo no driver here; exit 9", "no driver here"), ("sleep 60", "answer")])
def test_an_nvidia_smi_that_fails_is_no_gpu(
    does: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "nvidia-smi", f"exec sh -c '{does}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpus, "SMI_S", 1.0)
    (on_cpu,), (on_gpu,) = gpus.gpus(load_config([])), gpus.gpus(load_config(["cluster=gpu"]))
    assert (on_cpu.state, on_gpu.state) == (State.OK, State.PROBLEM)
    assert said in on_gpu.what


def test_several_machines_need_a_ray_cluster() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.ray_address: '' is not allowed with nodes=2"):
        load_config(["cluster=gpu", "cluster.nodes=2"])
    joined = load_config(["cluster=a100x8_80g", "cluster.nodes=2", "cluster.ray_address=head:6379"])
    (elsewhere,) = gpus.cluster(joined)
    assert (elsewhere.state, gpus.gpus_needed(joined)) == (State.OK, 0)


# ---------------------------------------------------------------- limits, in a child that has them


def files(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("limit", "state", "code"), [(512, "problem", 1), (2048, "warning", 0)])
def test_a_low_limit_on_open_files_is_named_with_what_raises_it(limit: int, state: str, code: int) -> None:
    ran = doctor("--json", first=files(limit, limit))
    assert ran.returncode == code
    ((seen, what, fix),) = bad(ran, "limits")
    assert (seen, what.startswith(f"{limit} open files")) == (state, True)
    assert fix.startswith("ulimit -n 65536")


def test_a_soft_limit_that_ray_raises_is_fine() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 < hard < 4096:
        pytest.skip("the hard limit is too low to be raised to")
    ran = doctor("--json", first=files(256, hard))
    assert ran.returncode == 0
    assert found(ran, "limits")[0]["what"].startswith("256 open files a process, which Ray raises to ")


@pytest.fixture
def group() -> Iterator[Callable[[Mapping[str, Mapping[str, str]]], Callable[[], None]]]:
    """Control groups of version 1 with limits, made for a child that enters them; gone afterwards."""
    made: list[Path] = []

    def enter(limits: Mapping[str, Mapping[str, str]]) -> Callable[[], None]:
        for controller, values in limits.items():
            made.append(Path("/sys/fs/cgroup", controller, f"selfplay-doctor-{os.getpid()}"))
            try:
                made[-1].mkdir()
                for name, value in values.items():
                    (made[-1] / name).write_text(value)
            except OSError as error:
                made.pop()
                pytest.skip(f"no control group can be made here: {error}")

        def join() -> None:
            for path in made:
                (path / "cgroup.procs").write_text(str(os.getpid()))

        return join

    yield enter
    for path in made:
        path.rmdir()


def test_the_limits_of_a_container_count(
    group: Callable[[Mapping[str, Mapping[str, str]]], Callable[[], None]],
) -> None:
    limits = {
        "memory": {"memory.limit_in_bytes": str(4 * 2**30)},
        "cpu": {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"},
        "pids": {"pids.max": "900"},
    }
    ran = doctor("--json", first=group(limits))
    assert ran.returncode == 1
    cores, memory = bad(ran, "machine")
    assert (cores[0], cores[1].startswith("1.5 of ")) == ("warning", True)
    assert (memory[0], memory[1].startswith("4.0 GiB of memory")) == ("warning", True)
    assert "docker run --memory=8g" in memory[2]
    ((state, what, fix),) = bad(ran, "limits")
    assert (state, what.startswith("900 processes and threads")) == ("problem", True)
    assert "--pids-limit" in fix


def unshared(*options: str, do: str = "true") -> list[str]:
    """A command that runs another one in namespaces of its own, after `do`; skips where the machine gives none."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), *options]
    command += ["sh", "-c", f'{do} && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces for tests here")
    return command


def test_a_machine_without_a_loopback_cannot_run() -> None:
    ran = doctor("--json", inside=unshared("--net"))
    assert ran.returncode == 1
    ((state, what, fix),) = bad(ran, "limits")
    assert (state, "could not be taken and reached" in what) == ("problem", True)
    assert fix.startswith("ip link set lo up")


# ---------------------------------------------------------------- disks


@pytest.mark.parametrize(
    ("options", "state", "says", "code"),
    [
        ("ro,size=8g", "problem", "nothing can be written to", 1),
        ("size=64m", "problem", "1 GiB is the least", 1),
        ("size=3g", "warning", "which checkpoints may fill", 0),
    ],
)
def test_an_output_dir_on_a_small_or_read_only_disk(
    options: str, state: str, says: str, code: int, tmp_path: Path
) -> None:
    inside = unshared("--mount", do=f"mount -t tmpfs -o {options} none '{tmp_path}'")
    ran = doctor("--json", f"output_dir={tmp_path}/outputs/mine", inside=inside)
    assert ran.returncode == code
    ((seen, what, fix),) = bad(ran, "disk")
    assert seen == state
    assert what.startswith(f"output_dir {tmp_path}/outputs/mine: ")
    assert says in what
    assert "output_dir=<folder>" in fix


def test_a_full_disk_is_a_problem(tmp_path: Path) -> None:
    full = f"mount -t tmpfs -o size=1m none '{tmp_path}' && (head -c 2m /dev/zero > '{tmp_path}/x' || true) 2>/dev/null"
    ran = doctor("--json", environ={"SELFPLAY_CACHE_DIR": str(tmp_path)}, inside=unshared("--mount", do=full))
    assert ran.returncode == 1
    ((state, what, fix),) = bad(ran, "disk")
    assert (state, "0.0 GiB free" in what) == ("problem", True)
    assert "SELFPLAY_CACHE_DIR=<folder>" in fix


def test_a_folder_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "outputs").touch()
    one = folder("output_dir", tmp_path / "outputs", "output_dir=<folder>")
    assert (one.state, "Not a directory" in one.what) == (State.PROBLEM, True)


def test_docker_s_own_shared_memory_is_too_small() -> None:
    ran = doctor("--json", inside=unshared("--mount", do="mount -t tmpfs -o size=64m none /dev/shm"))
    assert ran.returncode == 0
    ((state, what, fix),) = bad(ran, "shared memory")
    assert (state, "the run wants 316 MiB" in what) == ("warning", True)
    assert fix.startswith("docker run --shm-size=1g")


def test_shared_memory_is_what_ray_and_each_rank_take() -> None:
    assert shared_mib(load_config(["cluster.ranks_per_node=2"])) == 300 + 2 * 16
    assert shared_mib(load_config(["cluster=gpu", "cluster.object_store_mib=500"])) == 500
    assert shared_mib(load_config(ENDPOINT)) == 0


# ---------------------------------------------------------------- backbones


def model(folder: Path, weights: int) -> Path:
    """A folder like a model's, with weights of so many bytes that take no space."""
    folder.mkdir(parents=True)
    shape = {"vocab_size": 1000, "hidden_size": 64}
    (folder / "config.json").write_text(json.dumps(shape))
    (folder / "tokenizer.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(weights)
    return folder


def hub_model(cache: Path, **environ: str) -> Finding:
    """What is found of `some/model`; in a fresh process, for the hub's library reads the environment once."""
    code = (
        "import json; from dataclasses import asdict; from selfplay.config.load import load_config\n"
        "from selfplay.diagnosis.backbone import backbone\n"
        "config = load_config(['backbone=hf', 'backbone.path=some/model', 'algo.warmup.steps=0'])\n"
        "print(json.dumps(asdict(backbone(config)[0])))"
    )
    variables = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", **environ}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    read = json.loads(ran.stdout)
    return Finding(read["topic"], State(read["state"]), read["what"], read["fix"])


def test_a_model_of_the_hub_has_to_be_in_the_cache(tmp_path: Path) -> None:
    absent = hub_model(tmp_path)
    assert (absent.state, absent.what.startswith("some/model: not in this machine's")) == (State.PROBLEM, True)
    assert absent.fix.startswith("hf download some/model; or HF_HUB_OFFLINE=0")
    assert hub_model(tmp_path, HF_HUB_OFFLINE="0").state is State.OK
    cached = tmp_path / "models--some--model"
    snapshot = model(cached / "snapshots" / "abc", 1000)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    assert hub_model(tmp_path).what.endswith(f"of weights in {snapshot}")
    (snapshot / "model.safetensors").unlink()
    halved = hub_model(tmp_path)
    assert (halved.state, "weights not in the cache" in halved.what) == (State.PROBLEM, True)


def test_a_model_s_folder_lacks_what_its_index_names(tmp_path: Path) -> None:
    whole = model(tmp_path / "model", 10)
    assert missing_files(whole) == []
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "two.safetensors"}}
    (whole / "model.safetensors.index.json").write_text(json.dumps(index))
    (whole / "one.safetensors").touch()
    (whole / "config.json").unlink()
    assert missing_files(whole) == ["config.json", "two.safetensors"]


def test_a_large_model_on_the_cpu_is_more_than_the_memory(tmp_path: Path) -> None:
    words = ["backbone=hf", f"backbone.path={model(tmp_path / 'model', 2**40)}", "algo.warmup.steps=0"]
    (one,) = memory(load_config(words))
    assert one.state is State.WARNING
    assert "smaller backbone" in one.fix or "a machine with" in one.fix


# ---------------------------------------------------------------- sandboxes and provers


def test_a_config_with_programs_names_its_layers() -> None:
    ran = doctor("--json", "algo=anchorloop")
    assert not found(ran, "provers")
    on = found(ran, "sandbox")[0]["what"]
    assert on.startswith("python (zygote): on: ")
    assert "seccomp" in on


def test_bubblewrap_that_is_not_installed(tmp_path: Path) -> None:
    ran = doctor("--json", "algo=benchevolver", "sandbox.backend=bubblewrap", environ={"PATH": str(tmp_path)})
    assert ran.returncode == 1
    assert bad(ran, "sandbox")[0][2] == "apt-get install bubblewrap; or sandbox.backend=zygote"


def test_layers_that_nobody_has_and_packages_that_are_not_there() -> None:
    ran = doctor("--json", "algo=anchorloop", "sandbox.minimum=[files,moat]")
    assert ran.returncode == 1
    assert bad(ran, "sandbox")[0][1].startswith("moat: ")
    ran = doctor("--json", "algo=anchorloop", "sandbox.packages=[no_such_package]")
    assert bad(ran, "sandbox")[0][2].startswith("pip install no_such_package")


def without_namespaces() -> None:
    """No capability to make them, for root: as in a container."""
    import ctypes

    libc, pr_capbset_drop, cap_sys_admin = ctypes.CDLL(None, use_errno=True), 24, 21
    if libc.prctl(pr_capbset_drop, cap_sys_admin, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
def test_layers_that_a_container_denies_are_named_with_docker_s_options() -> None:
    softer = doctor("--json", "algo=anchorloop", first=without_namespaces)
    off = {what.partition(":")[0]: (state, fix) for state, what, fix in bad(softer, "sandbox")}
    assert [off[name][0] for name in ("mounts", "network", "processes")] == ["warning"] * 3
    assert all("--cap-add SYS_ADMIN" in fix for _, fix in off.values()), "all that is off needs a namespace"
    demanded = doctor("--json", "algo=anchorloop", "sandbox.minimum=[network]", first=without_namespaces)
    assert demanded.returncode == 1
    problems = [what for state, what, _ in bad(demanded, "sandbox") if state == "problem"]
    assert [what.partition(":")[0] for what in problems] == ["network"]


def test_an_ordinary_user_without_namespaces_is_told_the_kernel_s_setting() -> None:
    setting = "/proc/sys/user/max_user_namespaces"  # each user namespace has one of its own
    command = ["unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", f'echo 0 > {setting} && exec "$@"']
    command.append("sh")
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("no namespaces for tests here")
    ran = doctor("--json", "algo=anchorloop", inside=command)
    off = {what.partition(":")[0]: fix for _, what, fix in bad(ran, "sandbox")}
    assert off["user"] == "sysctl -w user.max_user_namespaces=10000"


def without_landlock() -> None:
    """A kernel that does not know it: its first call answers ENOSYS, in this process and its children."""
    import struct

    from selfplay.sandbox.python import kernel

    load, equal, answer = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0), (equal, 0, 1, 444), (answer, 0, 0, 0x00050000 | 38), (answer, 0, 0, 0x7FFF0000)]
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.load_filter(b"".join(struct.pack("<HBBI", *line) for line in program))


def test_a_kernel_too_old_for_landlock_is_told_from_which_it_has_it() -> None:
    ran = doctor("--json", "algo=anchorloop", first=without_landlock)
    found = {what.partition(":")[0]: fix for _, what, fix in bad(ran, "sandbox")}
    assert "Linux 5.13 or later" in found["landlock"]


def test_a_dafny_that_hangs_is_a_problem_and_is_named_on_the_terminal(tmp_path: Path) -> None:
    script(tmp_path / "dafny", f"echo $$ >> {tmp_path}/started\nexec sleep 600")
    ours, theirs = pty.openpty()
    started = time.monotonic()
    ran = subprocess.run(
        [*COMMAND, "--json", "sandbox=dafny"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        timeout=300,
    )
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert ran.returncode == 1
    assert time.monotonic() - started < 120
    ((state, what, fix),) = bad(ran, "provers")
    assert (state, what.startswith(f"dafny {tmp_path}/dafny did not finish")) == ("problem", True)
    assert "sandbox=dafny_lite" in fix
    assert "checking dafny ..." in said
    for pid in (tmp_path / "started").read_text().split():
        assert not Path("/proc", pid).exists(), "the hanging process is still there"


@pytest.mark.skipif(shutil.which("dafny") is None, reason="dafny is not installed")
def test_the_chosen_dafny_proves_something() -> None:
    ran = doctor("--json", "sandbox=dafny")
    assert ran.returncode == 0, ran.stdout
    (line,) = [one["what"] for one in found(ran, "provers") if one["what"].startswith("dafny /")]
    assert "proves a trivial method, version " in line


def test_a_dafny_that_proves_nothing_is_a_problem(tmp_path: Path) -> None:
    lies = script(tmp_path / "dafny", "echo; echo 'Dafny program verifier finished with 0 verified, 0 errors'")
    ran = doctor("--json", "sandbox=dafny", f"sandbox.path={lies}")
    ((state, what, _),) = bad(ran, "provers")
    assert (state, "does not prove a trivial method: malformed" in what) == ("problem", True)


def test_provers_that_are_not_chosen_are_told_and_no_more(tmp_path: Path) -> None:
    ran = doctor("--json", environ={"PATH": str(tmp_path), "VERUS_PATH": ""})
    assert ran.returncode == 0, ran.stdout
    assert [one["what"] for one in found(ran, "provers")][1:] == [
        "dafny: not installed; not needed by this config",
        "verus: not installed; not needed by this config",
    ]

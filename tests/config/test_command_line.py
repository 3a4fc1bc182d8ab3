"""The command line: settings that are refused, in one line each, and what is printed without starting anything."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from selfplay.config.load import group_options, leaves, load_config, to_yaml
from selfplay.config.schema import GROUPS
from selfplay.train import main

TOP = "algo, backbone, cluster, dry_run, logging, name, output_dir, resume, row, rows, sandbox, seed, stop_after"

BAD = {
    "no such key": (
        ["backbone.layer=3"],
        "backbone.layer=3: there is no such setting; did you mean backbone.layers?",
    ),
    "a key without its section": (["steps=4"], "steps=4: there is no such setting; did you mean algo.steps?"),
    "a misspelt section": (["alg=ancora"], "alg=ancora: there is no such setting; did you mean algo?"),
    "nothing like it": (["zebra=1"], f"zebra=1: there is no such setting (the top level has {TOP})"),
    "no such member": (
        ["backbone=tny"],
        "backbone: 'tny' is not allowed; it is one of hf, mimo_7b_base, qwen25_coder_3b_instruct, qwen3_4b_base,"
        " smollm2_135m, tiny; did you mean tiny?",
    ),
    "text for a number": (["algo.steps=many"], "algo.steps: 'many' is not allowed; it is a whole number"),
    "a fraction for a count": (["seed=1.5"], "seed: '1.5' is not allowed; it is a whole number"),
    "text for a switch": (["dry_run=maybe"], "dry_run: 'maybe' is not allowed; it is true or false"),
    "none for a number": (["algo.steps=null"], "algo.steps: 'null' is not allowed; it is a whole number"),
    "a value for a section": (
        ["algo.optim=3"],
        "algo.optim: '3' is not allowed; it is a section with settings of its own",
    ),
    "out of range": (["algo.steps=-1"], "algo.steps: -1 is not allowed; it must be 0 or more"),
    "out of range, deeper": (
        ["algo.curriculum.root_ratio=1.5"],
        "algo.curriculum.root_ratio",
    ),
    "a seed too large": (["seed=2147483648"], "seed: 2147483648 is not allowed; it lies in [0, 2147483647]"),
    "a misspelt word": (
        ["algo.proposer.rejected=zero_rewrd"],
        "algo.proposer.rejected: 'zero_rewrd' is not allowed; it is zero_reward or drop; did you mean zero_reward?",
    ),
    "a warm-up batch that ranks cannot share": (
        ["cluster.ranks_per_node=3"],
        "algo.warmup.batch_size: 32 is not allowed; it must be a multiple of the 3 ranks",
    ),
    "demonstrations of another style": (
        ["backbone.prompts=full"],
        "algo.warmup.demos: '' is not allowed with backbone.prompts=full; the generated demonstrations are for compact",
    ),
    "a frozen part that a penalty would train": (
        ["algo.freeze=proposer", "algo.optim.kl_coef=0.1"],
        "algo.freeze: 'proposer' is not allowed with algo.optim.kl_coef or algo.optim.entropy_coef;",
    ),
    "a name that is a path": (["name=a/b"], "name: 'a/b' is not allowed; it is letters, digits, '.', '_' and '-'"),
    "GPU sharding on a CPU": (
        ["cluster.rollout.tensor_parallel=2", "cluster.ranks_per_node=2"],
        "cluster.rollout.tensor_parallel: 2 is not allowed with device=cpu; it must be 1",
    ),
    "answers longer than the context": (
        ["algo.solver.max_tokens=800", "algo.max_prompt_tokens=256", "backbone.max_positions=1024"],
        "algo.solver.max_tokens: 800 is not allowed; it must be at most 768, which algo.max_prompt_tokens=256 leaves of"
        " backbone.max_positions=1024",
    ),
    "micro-batches below one sequence": (
        ["cluster.fsdp.max_tokens_per_rank=300", "algo.max_prompt_tokens=256", "algo.solver.max_tokens=96"],
        "cluster.fsdp.max_tokens_per_rank: 300 is not allowed; it must be at least ",
    ),
    "a hub model without its name": (
        ["backbone=hf"],
        "backbone.path: '' is not allowed with kind=hf; it is a local folder or a hub name",
    ),
    "wandb in a mode it has not": (
        ["logging.wandb.mode=onlin"],
        "logging.wandb.mode: 'onlin' is not allowed; it is disabled, offline or online; did you mean online?",
    ),
    "a setting added": (
        ["+algo.foo=1"],
        "+algo.foo=1: settings are neither added nor removed here; write algo.foo=value",
    ),
    "a sweep without its flag": (["seed=1,2"], "seed: '1,2' is a sweep over several values; add --multirun"),
    "a reference to nothing": (["algo.steps=${seedx}"], "algo.steps: Interpolation key 'seedx' not found"),
    "not key=value": (["algo.steps"], "algo.steps: not an override; write key=value"),
    "no such flag": (["--dry-run"], "--dry-run: there is no such flag; there are --help, --cfg job and --multirun"),
    "resume from nowhere": (
        ["resume=nowhere"],
        "resume: 'nowhere' is not allowed; it is never, auto, once or the path of a run directory",
    ),
    "a bad job in a sweep": (
        ["--multirun", "seed=0,1", "algo.steps=5,-1"],
        "job 1 (seed=0 algo.steps=-1): algo.steps: -1 is not allowed; it must be 0 or more",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_end_in_one_line_and_code_2(
    case: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, line = BAD[case]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {line}")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir()), "a refused command left something behind"


def run_fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("argument", ["algo.stepz=3", "cluster.device=tpu", "dry_run=true"])
def test_settings_are_judged_before_anything_heavy_is_imported(argument: str) -> None:
    heavy = {"torch", "ray", "verl", "vllm", "transformers", "z3"}
    ran = run_fresh(
        "import sys; from selfplay.train import main\n"
        f"code = main([{argument!r}])\n"
        f"print('imported:', sorted({heavy!r} & set(sys.modules)), 'code:', code)"
    )
    expected = 0 if argument == "dry_run=true" else 2
    assert ran.stdout.splitlines()[-1] == f"imported: [] code: {expected}", ran.stderr


def test_the_module_passes_its_exit_code_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "selfplay.train", "sandbox=dafny_light"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: sandbox: 'dafny_light' is not allowed;"
        " it is one of dafny, dafny_lite, judge, python, verus; did you mean dafny_lite?\n"
    )


def test_help_is_quick_and_names_groups_and_exit_codes(tmp_path: Path) -> None:
    started = time.monotonic()
    command = [sys.executable, "-m", "selfplay.train", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60)
    seconds = time.monotonic() - started
    for expected in ("ancora*", "tiny*", "dafny_lite", "cpu*", "resume=auto", "130 interrupted"):
        assert expected in ran.stdout
    assert seconds < 5  # 0.5 s when measured; the margin is for a machine busy with other tests


def test_cfg_job_prints_settings_that_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cfg", "job", "seed=4", "algo.optim.lr=0.5"]) == 0
    settings = yaml.safe_load(capsys.readouterr().out)
    assert settings["seed"] == 4
    assert settings["algo"]["optim"]["lr"] == 0.5
    assert settings["sandbox"]["name"] == "dafny_lite"


def test_the_command_line_wins_over_what_the_algo_and_the_experiment_choose() -> None:
    assert load_config([]).sandbox.name == "dafny_lite"
    assert load_config(["sandbox=dafny"]).sandbox.name == "dafny"
    control = load_config(["experiment=ancora_control"])
    assert (control.name, control.algo.optim.lr) == ("control", 0.0)
    assert load_config(["experiment=ancora_control", "algo.optim.lr=0.25"]).algo.optim.lr == 0.25


def test_every_member_of_every_group_composes() -> None:
    files = ["algo.roots=roots.jsonl", "algo.eval.heldout=heldout.jsonl"]
    needs = {
        "hf": ["backbone.path=some/model", "algo.warmup.steps=0"],
        **{model: ["algo.warmup.steps=0"] for model in ("qwen3_4b_base", "mimo_7b_base", "qwen25_coder_3b_instruct")},
        "verus": files,
        "python": ["algo=anchorloop"],
        "judge": ["algo=benchevolver"],
    }
    for group in set(GROUPS) - {"experiment"}:  # those have tests of their own
        for member in set(group_options(group)) - {"ancora", "tiny", "dafny_lite", "cpu", "default"}:  # seen elsewhere
            config = load_config([f"{group}={member}", *needs.get(member, [])])
            assert getattr(config, group).name == member


def test_printed_settings_hold_every_key() -> None:
    config = load_config([])
    printed = yaml.safe_load(to_yaml(config))
    for key, value in leaves(config):
        found = printed
        for part in key.split("."):
            found = found[part]
        assert found == value, key


def test_dry_run_prints_settings_placement_and_steps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ["algo.seeds_per_step=3", "algo.proposals_per_seed=5", "algo.attempts_per_spec=7", "algo.steps=11"]
    assert main(["dry_run=true", "cluster.ranks_per_node=2", *sizes]) == 0
    out = capsys.readouterr().out
    for heading in ("# settings", "# placement", "# steps", "# run directory"):
        assert heading in out
    assert "FSDP ranks          2 on 1 machine (cpu, float32" in out
    assert "vLLM replicas       2 (cpu, float32)" in out
    assert "frozen servers      none" in out
    assert "11 steps" in out
    assert "15 proposals (N=5 a seed) and up to 105 attempts (K=7 a proposal), so 15 to 120 rows" in out
    assert not list(tmp_path.iterdir())


def test_multirun_runs_each_job_in_a_process_and_reports(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-m", "dry_run=true", "seed=0,1", "name=a"]) == 0
    out = capfd.readouterr().out
    assert out.count("# placement") == 2
    rows = [line.split() for line in out.splitlines() if "dry_run=True" in line]
    assert [(*row[:3], row[4]) for row in rows] == [("0", "finished", "0", "seed=0"), ("1", "finished", "0", "seed=1")]

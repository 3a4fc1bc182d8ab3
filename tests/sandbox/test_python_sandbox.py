"""The sandbox for model-written Python: what programs can do in it, and what they cannot."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import Template

import psutil
import pytest
from attack_suite import Host, config, host, judge
from python_attacks import ATTACKS, Attack

import selfplay
from selfplay.sandbox.config import PYTHON_BACKENDS, PythonConfig
from selfplay.sandbox.python.pool import PythonSandbox
from selfplay.sandbox.python.result import Ending, SandboxError
from selfplay.sandbox.python.seccomp import ARCHITECTURES, DENIED, deny_filter

HEADERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[PythonSandbox]:
    sandbox = PythonSandbox(config("zygote"))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module", params=PYTHON_BACKENDS)
def either(request: pytest.FixtureRequest) -> Iterator[PythonSandbox]:
    if request.param == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    sandbox = PythonSandbox(config(request.param))
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def target() -> Iterator[Host]:
    os.environ["A_SECRET"] = "secret"
    with host() as target:
        yield target
    del os.environ["A_SECRET"]


# ---------------------------------------------------------------- what a program can do


@pytest.mark.parametrize(
    "program",
    [
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()",
        "import atexit\natexit.register(lambda: print('late'))",
        "import atexit, os, sys\nfrom io import BytesIO\nsys.stdout = BytesIO()\n"
        "atexit.register(lambda: os.write(1, b'late\\n'))",
        "import io, sys\nsys.stdout.write('late')\nsys.stdout = io.StringIO()\nsys.__stdout__ = None",
        "import io, os\nclass Fast(io.IOBase):\n    def flush(self): os.write(1, b'late')\nout = Fast()\n"
        "def use(): return out",  # a stream that writes when it is collected, and a cycle
        "print('late')\nquit()",
        "print('late')\nexit(0)",
    ],
)
def test_a_program_ends_as_in_an_interpreter_of_its_own(either: PythonSandbox, program: str) -> None:
    result = either.run(program)
    assert (result.ending, result.stdout.strip()) == (Ending.FINISHED, "late"), result.stderr


def test_hashes_and_orders_are_the_same_in_every_process() -> None:
    """A task whose reference prints a set of words would else not be deterministic."""
    program = "import random\nprint(hash('word'), {'one', 'two', 'three', 'four'}, random.random())"
    seen = set()
    for backend in PYTHON_BACKENDS:
        for _ in range(3 if backend == "zygote" or shutil.which("bwrap") else 0):
            with contextlib.closing(PythonSandbox(PythonConfig(backend=backend, slots=1))) as sandbox:
                seen.add(sandbox.run(program).stdout)
    assert len(seen) == 1


def test_a_program_prints_and_reads(either: PythonSandbox) -> None:
    result = either.run("print('π', input(), input())\nimport sys; print('e', file=sys.stderr)", stdin="one\ntwo\n")
    assert (result.ending, result.exit_code) == (Ending.FINISHED, 0)
    assert (result.stdout, result.stderr) == ("π one two\n", "e\n")


def test_an_exception_fails_with_the_program_s_own_frames(either: PythonSandbox) -> None:
    result = either.run("def f():\n    return 1 / 0\nprint('before')\nf()")
    assert (result.ending, result.exit_code, result.stdout) == (Ending.FAILED, 1, "before\n")
    assert result.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert "line 2, in f" in result.stderr
    assert "zygote" not in result.stderr


@pytest.mark.parametrize(
    ("code", "ending", "exit_code"),
    [
        ("raise SystemExit", Ending.FINISHED, 0),
        ("raise SystemExit(3)", Ending.FAILED, 3),
        ("raise SystemExit('no')", Ending.FAILED, 1),
        ("x = (", Ending.FAILED, 1),
        ("import os; os.abort()", Ending.KILLED, 6),
        ("import time; time.sleep(60)", Ending.TIMEOUT, 0),
    ],
)
def test_how_programs_end(either: PythonSandbox, code: str, ending: Ending, exit_code: int) -> None:
    result = either.run(code, wall_s=1.0)
    assert (result.ending, result.exit_code) == (ending, exit_code)


def test_what_was_printed_before_a_timeout_is_kept(either: PythonSandbox) -> None:
    result = either.run("print('so far')\nwhile True: pass", wall_s=1.0)
    assert (result.ending, result.stdout) == (Ending.TIMEOUT, "so far\n")


def test_output_is_cut(sandbox: PythonSandbox) -> None:
    result = sandbox.run("print('x' * 1_000_000)")
    assert result.ending is Ending.FINISHED
    assert len(result.stdout) == 64 * 1024


def test_the_same_program_prints_the_same(sandbox: PythonSandbox) -> None:
    code = "import random; print(random.random(), hash('a'))"
    assert sandbox.run(code).stdout == sandbox.run(code).stdout


def test_a_package_below_tmp_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        package = Path(folder, "a_package")
        package.mkdir()
        (package / "__init__.py").touch()
        monkeypatch.syspath_prepend(folder)
        with pytest.raises(SandboxError, match="'a_package' is installed below /tmp"):
            PythonSandbox(PythonConfig(slots=1, packages=["a_package"]))


@pytest.mark.parametrize("backend", PYTHON_BACKENDS)
def test_demanded_packages_can_be_imported_and_others_cannot(backend: str) -> None:
    if backend == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    if Path(sys.prefix).is_relative_to("/tmp"):
        pytest.skip("what is installed below /tmp cannot be shown to a run")
    with_sympy = PythonSandbox(PythonConfig(backend=backend, slots=1, packages=["sympy", "mpmath", "numpy"]))
    code = "import numpy, sympy; x = sympy.Symbol('x'); print(sympy.integrate(x**2, x), numpy.arange(3).sum())"
    try:
        result = with_sympy.run(code)
        assert result.stdout == "x**3/3 3\n", result.stderr
        assert "No module named 'torch'" in with_sympy.run("import torch").stderr
        assert "No module named 'selfplay" in with_sympy.run("import selfplay.engine").stderr
    finally:
        with_sympy.close()


def test_modules_changed_by_one_run_are_whole_in_the_next(sandbox: PythonSandbox) -> None:
    poison = "import builtins, math, json\nmath.sqrt = builtins.len = builtins.print = json.dumps = lambda *a: 0"
    for _ in range(4):  # every slot
        assert sandbox.run(poison).ending is Ending.FINISHED
        assert sandbox.run("import math, json; print(math.sqrt(4), len('ab'), json.dumps(1))").stdout == "2.0 2 1\n"


def test_two_runs_at_once_do_not_see_each_other(sandbox: PythonSandbox) -> None:
    code = "import os, time\nopen('/tmp/$', 'w').write('mine')\ntime.sleep(0.7)\nprint(os.listdir('/tmp'), os.getpid())"
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda name: sandbox.run(code.replace("$", name)), ("a", "b"))
    assert (first.stdout, second.stdout) == ("['a'] 2\n", "['b'] 2\n")
    assert first.wall_s + second.wall_s > 1.3  # at once, on two slots


# ---------------------------------------------------------------- what it cannot do


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained(sandbox: PythonSandbox, target: Host, attack: Attack) -> None:
    result, achieved = judge(attack, sandbox, target)
    assert not achieved, f"{achieved}\n{result}"


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained_by_either(either: PythonSandbox, target: Host, attack: Attack) -> None:
    result, achieved = judge(attack, either, target)
    assert not achieved, f"{achieved}\n{result}"


@pytest.mark.slow
@pytest.mark.parametrize("backend", PYTHON_BACKENDS)
def test_an_ordinary_user_is_as_safe(tmp_path_factory: pytest.TempPathFactory, backend: str) -> None:
    python = Path("/usr/bin/python3")
    if os.geteuid() != 0:
        pytest.skip("the other tests are an ordinary user's already")
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import sys; assert sys.version_info[:2] == (3, 11)"]).returncode
    ):
        pytest.skip("needs a Python 3.11 that every user may run")
    if backend == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    folder = Path("/var/tmp") / f"selfplay-test-{os.getpid()}"  # tmp_path is its owner's alone
    source, tests = Path(selfplay.__file__).parent, Path(__file__).parent
    try:
        shutil.copytree(source / "sandbox" / "python", folder / "selfplay" / "sandbox" / "python")
        shutil.copy(source / "sandbox" / "config.py", folder / "selfplay" / "sandbox")
        for name in ("attack_suite.py", "python_attacks.py"):
            shutil.copy(tests / name, folder)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        done = subprocess.run(
            [python, "-B", folder / "attack_suite.py", backend],
            env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"},
            user=54321,
            group=54321,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ATTACKS)} attacks, 0 not contained" in done.stdout


def test_there_are_enough_attacks_and_each_can_fail() -> None:
    assert len(ATTACKS) >= 30
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)
    target_values = {"canary": "/etc/hostname", "pid": "1", "port": "1", "abstract": "x"}
    harmless = ("reads outside", "environment", "programs", "memory file")
    unguarded = [attack for attack in ATTACKS if attack.name in harmless]
    assert len(unguarded) == len(harmless)
    for attack in unguarded:  # harmless, so they can be run without a sandbox: they do get through
        code = Template(attack.code).safe_substitute(target_values)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"A_SECRET": "secret"})
        assert "ESCAPED" in done.stdout, attack.name


# ---------------------------------------------------------------- the sandbox itself


@pytest.mark.parametrize("minimum", ["seccomp", "landlock", "files"])
def test_a_layer_that_is_off_and_demanded_is_an_error(monkeypatch: pytest.MonkeyPatch, minimum: str) -> None:
    found = {"seccomp": "", "landlock": "", "files": ""} | {minimum: "OSError: no"}
    monkeypatch.setattr("selfplay.sandbox.python.pool.self_test", lambda sandbox: found)
    with pytest.raises(SandboxError, match=rf"sandbox.minimum: this machine does not give {minimum} \(OSError: no\)"):
        PythonSandbox(PythonConfig(minimum=[minimum]))
    others = [name for name in found if name != minimum]
    PythonSandbox(PythonConfig(minimum=others)).close()


def test_an_unknown_layer_cannot_be_demanded() -> None:
    with pytest.raises(SandboxError, match="secomp"):
        PythonSandbox(PythonConfig(minimum=["secomp"]))


def test_a_killed_zygote_is_replaced(sandbox: PythonSandbox) -> None:
    assert sandbox.run("print(1)").stdout == "1\n"
    living = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]  # other tests leave some
    zygotes = [p for p in living if "selfplay.sandbox.python.zygote" in " ".join(p.cmdline())]
    assert zygotes
    for process in zygotes:
        process.kill()
    assert [sandbox.run("print(2)").stdout for _ in range(3)] == ["2\n"] * 3


def test_a_zygote_ends_with_its_host() -> None:
    code = (
        "from selfplay.sandbox.config import PythonConfig\n"
        "from selfplay.sandbox.python.pool import PythonSandbox\n"
        "import os, threading, time\n"
        "s = PythonSandbox(PythonConfig(slots=1))\n"
        "threading.Thread(target=s.run, args=('import time; time.sleep(50)',), daemon=True).start()\n"
        "time.sleep(1); print([p.pid for p in __import__('psutil').Process().children(recursive=True)], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    pids = eval(done.stdout)
    assert len(pids) == 4  # the stub, the zygote, a run's first process, the run
    _gone, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=5)
    assert not alive


def test_bad_settings_name_the_key() -> None:
    for bad in ({"backend": "docker"}, {"slots": 0}, {"memory_mib": 16}):
        with pytest.raises(ValueError, match=f"^{next(iter(bad))}: "):
            PythonConfig(**bad).check()  # type: ignore[arg-type]


def leftovers(sandbox: PythonSandbox) -> dict[str, float]:
    """What runs might leave: processes, descriptors, files in /tmp, and memory of host and zygotes, MiB."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    return {
        "processes": len(family),
        "descriptors": sum(process.num_fds() for process in family),
        "tmp": len(os.listdir("/tmp")),
        "memory": sum(process.memory_info().rss for process in family) / 2**20,
    }


def soak(sandbox: PythonSandbox, runs: int) -> tuple[dict[str, float], dict[str, float]]:
    def one(i: int) -> bool:
        done = sandbox.run(f"x = list(range(1000))\nopen('/tmp/f', 'w').write('x')\nprint({i}, sum(x))")
        return done.stdout == f"{i} 499500\n"

    block = min(runs, 1000)  # as many futures wait before as after, so that only a leak grows
    with ThreadPoolExecutor(2) as pool:
        assert all(list(pool.map(one, range(block))))
        before = leftovers(sandbox)
        for start in range(0, runs, block):
            assert all(list(pool.map(one, range(start, start + block))))
    return before, leftovers(sandbox)


def test_runs_leave_nothing(either: PythonSandbox) -> None:
    before, after = soak(either, 200)
    for what in ("processes", "descriptors", "tmp"):
        assert after[what] == before[what], what


@pytest.mark.slow
def test_ten_thousand_runs_leave_nothing(sandbox: PythonSandbox) -> None:
    before, after = soak(sandbox, 10_000)
    print(before, after)
    for what in ("processes", "descriptors", "tmp"):
        assert after[what] == before[what], what
    assert after["memory"] < before["memory"] + 2


@pytest.mark.skipif(not all(path.exists() for path in HEADERS), reason="needs the kernel's headers (linux-libc-dev)")
def test_system_calls_have_the_numbers_of_the_kernel_s_headers() -> None:
    import re

    for column, header in enumerate(HEADERS):
        pattern = r"#define __NR(?:3264)?_(\w+) (\d+)"
        known = {m[1]: int(m[2]) for m in re.finditer(pattern, header.read_text())}
        for name, numbers in DENIED.items():
            if name in known:
                assert numbers[column] == known[name], name


def test_the_filter_of_every_architecture_fits() -> None:
    for machine in ARCHITECTURES:
        program = deny_filter(machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096  # the kernel's limit

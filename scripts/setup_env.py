"""Make `.venv` from a lock file: `python3.11 scripts/setup_env.py requirements/cpu.lock.txt .venv/.ready-<hash>`.

Needs only Python's standard library. The lock lists `torch==<version>+cpu`: that name exists in no index that carries
CUDA builds, so pip can never fetch one by mistake. It is taken from wherever this machine's pip is configured to look,
and, if it is not there, from PyTorch's own index of CPU wheels. pip's whole output goes to `.venv/install.log`.
"""

import fcntl
import subprocess
import sys
import time
from pathlib import Path

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOG = VENV / "install.log"


def main(lock: str, stamp: str) -> int:
    """Create or update the environment and write the stamp file that says it is complete."""
    if sys.version_info[:2] != (3, 11):
        found = f"{sys.executable} is {sys.version.split()[0]}"
        return fail(f"Python 3.11 is needed; {found} (make PYTHON=/path/to/python3.11 ...)")
    try:
        import ensurepip  # noqa: F401  (Debian ships it apart from Python)
    except ImportError:
        return fail("Python's venv module is incomplete here: apt-get install python3.11-venv")
    VENV.mkdir(exist_ok=True)
    with (VENV / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two `make` at once: the second waits, then finds the stamp
        if (ROOT / stamp).exists():
            return 0
        return install(ROOT / lock, ROOT / stamp)


def install(lock: Path, stamp: Path) -> int:
    """Run the steps in order; the first that fails ends with the tail of pip's log."""
    started = time.monotonic()
    pins = [line.strip() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
    torch = next(pin for pin in pins if pin.startswith("torch=="))
    LOG.write_text("")
    if not (VENV / "bin" / "pip").exists():
        print("setup: creating .venv", flush=True)
        if run([sys.executable, "-m", "venv", str(VENV)]) != 0:
            return fail_with_log("python -m venv failed")
    if pip([torch], 1, "torch") != 0 and pip([torch, "--extra-index-url", TORCH_CPU_INDEX], 1, "torch") != 0:
        return fail_with_log(f"{torch} is neither where this machine's pip looks nor at {TORCH_CPU_INDEX}")
    if pip(["-r", str(lock)], len(pins), "packages") != 0:
        return fail_with_log("pip could not install the locked packages")
    if pip(["--no-build-isolation", "-e", str(ROOT)], 1, "selfplay") != 0:
        return fail_with_log("pip could not install the project itself")
    check = "import torch, sys; sys.exit(torch.version.cuda is not None)"
    if run([str(VENV / "bin" / "python"), "-c", check]) != 0:
        return fail_with_log("the installed torch does not import or is not a CPU build")
    for old in VENV.glob(".ready-*"):
        old.unlink()
    stamp.write_text("")
    print(f"setup: done in {time.monotonic() - started:.0f} s", flush=True)
    return 0


def pip(arguments: "list[str]", total: int, what: str) -> int:
    """`pip install --no-deps ARGUMENTS`, shown as a counter; returns pip's exit code."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--no-input", "--progress-bar", "off"]
    return run([*command, *arguments], total, what)


def run(command: "list[str]", total: int = 0, what: str = "") -> int:
    """Run a command with its output in the log; with `total`, count pip's packages as they come."""
    with LOG.open("a") as log:
        log.write("$ " + " ".join(command) + "\n")
        log.flush()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=str(ROOT))
        assert process.stdout is not None
        counter = Counter(total, what)
        for line in process.stdout:
            log.write(line)
            counter.take(line)
        counter.end()
        return process.wait()


class Counter:
    """pip's lines as one short line: redrawn on a terminal, printed every 50 packages elsewhere."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.live = sys.stdout.isatty()
        self.seen = 0
        if total == 1:
            print(f"setup: installing {what}", flush=True)

    def take(self, line: str) -> None:
        """Count a line of pip's that begins a package."""
        if line.startswith("Installing collected packages"):
            self.show("unpacking")
        elif line.startswith(("Collecting ", "Requirement already satisfied")):
            self.seen += 1
            if self.live or self.seen % 50 == 0:
                self.show("fetching")

    def show(self, doing: str) -> None:
        """Say what is being done to how many packages."""
        if self.total > 1:
            start, end = ("\r", " ") if self.live else ("", "\n")
            print(f"{start}setup: {doing} {self.what} {self.seen}/{self.total}", end=end, flush=True)

    def end(self) -> None:
        """Leave the redrawn line."""
        if self.live and self.total > 1:
            print(flush=True)


def fail(message: str) -> int:
    print(f"setup: {message}", file=sys.stderr)
    return 1


def fail_with_log(message: str) -> int:
    """The error lines of the log, without pip's warnings, and where the rest is."""
    lines = [line for line in LOG.read_text().splitlines() if not line.startswith("WARNING")]
    print("\n".join(lines[-15:]), file=sys.stderr)
    return fail(f"{message} (everything pip said: {LOG})")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

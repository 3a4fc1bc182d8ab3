"""Run a Dockerfile's steps without a container engine: `python scripts/container_steps.py BASE WORK [...]`, as root.

BASE is a folder with the system that the Dockerfile's FROM names, as `debootstrap --variant=minbase bookworm BASE`
makes one; it is copied, not changed. WORK is a new folder: each stage gets its root there. The steps are read from the
Dockerfile itself; each RUN is run in the stage's root, as the user that is set there, with mounts and
processes of its own. What it is not: there is no layer of the engine's around it, so whatever the machine allows is
allowed; the network is the machine's.

    --dockerfile FILE     default docker/cpu.Dockerfile; COPY reads from the repository's top, by .dockerignore
    --show HOST[:ROOT]    show a file or folder of the machine in every root, read-only (a mirror's settings, wheels)
    --env NAME=VALUE      a variable for every RUN, as a proxy would be: it is not in the image
    --arg NAME=VALUE      as `docker build --build-arg`
    --then "COMMAND"      afterwards run this as `docker run` would: ENTRYPOINT, USER, WORKDIR; may be repeated
    --keep                WORK/<stage> of an earlier call is the image: run only the --then commands

Exit codes: 0 all steps ended with 0, 1 one did not, 2 the Dockerfile or the arguments cannot be used.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parent.parent
SHELL = ("/bin/sh", "-c")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Run by `unshare`, so every mount ends with the command, and so does every process. The root is moved into as an engine
# does it: after a chroot the kernel gives no user namespaces, and the sandbox would lack layers for that alone.
PREPARE = """set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"
for file in /etc/hosts /etc/resolv.conf; do touch "$0$file"; mount --bind "$file" "$0$file"; done
while [ "$1" != -- ]; do mount --bind "$1" "$0$2"; mount -o remount,bind,ro "$0$2"; shift 2; done; shift
cd "$0"; pivot_root . .; umount -l .; cd /
exec "$@"
"""


class Unusable(ValueError):
    """The Dockerfile or an argument cannot be used; the message is one line."""


@dataclass(frozen=True)
class Step:
    """One instruction: `RUN`, and the rest of it with its lines joined."""

    line: int
    word: str
    rest: str


@dataclass
class Image:
    """What the steps so far have set."""

    root: Path
    shell: tuple[str, ...] = SHELL
    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    args: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def filled(self, text: str) -> str:
        """`text` with the variables that the Dockerfile has set; others become empty, as in an engine."""
        known = self.args | self.env
        template = Template(text)
        return template.substitute({name: known.get(name, "") for name in template.get_identifiers()})


def read_steps(dockerfile: Path) -> list[Step]:
    """The instructions, comments and empty lines left out.

    Raises:
        Unusable: the file cannot be read, or a line is no instruction.
    """
    try:
        lines = dockerfile.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Unusable(f"{dockerfile}: {error.strerror}") from error
    steps: list[Step] = []
    parts: list[str] = []
    start = 0
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        start = start if parts else number
        parts.append(line.strip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\"):
            continue
        word, _, rest = " ".join(parts).partition(" ")
        if not word.isalpha() or not rest:
            raise Unusable(f"{dockerfile}:{start}: {word}: no instruction")
        steps.append(Step(start, word.upper(), rest))
        parts = []
    return steps


def exec_form(text: str) -> list[str]:
    """The words of `["a", "b"]`. Raises Unusable for the shell form."""
    try:
        words = json.loads(text)
    except json.JSONDecodeError as error:
        raise Unusable(f"{text}: not in exec form") from error
    return [str(word) for word in words]


def ignored_names(dockerignore: Path) -> list[str]:
    """Patterns of names that no COPY takes, from the lines `**/<pattern>`."""
    lines = dockerignore.read_text(encoding="utf-8").split()
    return [line.removeprefix("**/") for line in lines if line.startswith("**/")]


def taken_in(source: str, dockerignore: Path) -> bool:
    """Whether the build's context has `source`: the file lets in by name what it does not shut out with `*`."""
    lines = dockerignore.read_text(encoding="utf-8").split()
    return "*" not in lines or any(line in (f"!{source.split('/')[0]}", f"!{source.split('/')[0]}/") for line in lines)


def copied(source: Path, place: Path, *, into: bool, from_context: bool) -> Path:
    """Copy a folder's contents to `place`, or a file to it or into it; what is there now.

    Raises:
        Unusable: there is no such file.
    """
    if not source.exists():
        raise Unusable(f"COPY {source}: there is no such file")
    if source.is_dir():
        left_out = shutil.ignore_patterns(*(ignored_names(ROOT / ".dockerignore") if from_context else []))
        shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True, ignore=left_out)
        return place
    target = place / source.name if into or place.is_dir() else place
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    return target


def shown(text: str) -> tuple[str, str]:
    """What `--show` names: a path of the machine, and where it is shown in a root."""
    outside, _, inside = text.partition(":")
    if not os.path.exists(outside):
        raise Unusable(f"--show {outside}: there is no such file")
    return outside, inside or outside


def assigned(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, each."""
    for pair in pairs:
        if "=" not in pair:
            raise Unusable(f"{pair}: not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


class Builder:
    """Runs the steps of one Dockerfile."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.base, self.work = Path(options.base).resolve(), Path(options.work).resolve()
        if not (self.base / "etc" / "passwd").is_file():
            raise Unusable(f"{self.base}: no system lies there; debootstrap makes one")
        self.shown = [shown(text) for text in options.show]
        self.env, self.given = assigned(options.env), assigned(options.arg)
        self.keep = bool(options.keep)
        self.stages: dict[str, Image] = {}
        self.image: Image | None = None

    def take(self, step: Step) -> int:
        """One step; the exit code of its command, 0 where it has none."""
        if step.word == "FROM":
            self.begin(step.rest.split())
            return 0
        image = self.image
        if image is None:
            raise Unusable(f"line {step.line}: {step.word} before FROM")
        if step.word in ("RUN", "COPY"):
            return 0 if self.keep else self.run(image, step.rest) if step.word == "RUN" else self.copy(image, step.rest)
        if step.word == "ENV":
            image.env |= dict(word.split("=", 1) for word in shlex.split(image.filled(step.rest)))
        elif step.word == "ARG":
            name, _, value = shlex.split(step.rest)[0].partition("=")
            image.args[name] = self.given.get(name, value)
        elif step.word == "USER":
            image.user = image.filled(step.rest)
        elif step.word == "WORKDIR":
            image.folder = os.path.join(image.folder, image.filled(step.rest))
            (image.root / image.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif step.word == "SHELL":
            image.shell = tuple(exec_form(step.rest))
        elif step.word == "ENTRYPOINT":
            image.entrypoint = exec_form(step.rest)
        elif step.word == "CMD":
            image.command = exec_form(step.rest)
        else:
            raise Unusable(f"line {step.line}: {step.word} is not known here")
        return 0

    def begin(self, words: Sequence[str]) -> None:
        """A new stage: a copy of the base's folder, or of the stage that it names."""
        name = words[2] if len(words) == 3 else "image"
        source = self.stages[words[0]].root if words[0] in self.stages else self.base
        self.image = self.stages[name] = Image(self.work / name)
        if self.keep:
            return
        if self.image.root.exists():
            raise Unusable(f"{self.image.root}: is there already; take a new WORK, or --keep")
        self.work.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(source), str(self.image.root)], check=True)

    def copy(self, image: Image, rest: str) -> int:
        """COPY [--from=<stage>] [--chown=<user>:<group>] SOURCE... TARGET."""
        words = shlex.split(image.filled(rest))
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        top = self.stages[flags["from"]].root if "from" in flags else ROOT
        place = image.root / os.path.join(image.folder, target).lstrip("/")
        placed = []
        for source in sources:
            if "from" not in flags and not taken_in(source, ROOT / ".dockerignore"):
                raise Unusable(f"COPY {source}: .dockerignore keeps it out")
            path = top / source.lstrip("/")
            placed.append(copied(path, place, into=target.endswith("/"), from_context="from" not in flags))
        if "chown" not in flags:
            return 0
        inside = [f"/{path.relative_to(image.root)}" for path in placed]
        return self.execute(image, "root", ["chown", "-R", flags["chown"], *inside], {})

    def run(self, image: Image, text: str) -> int:
        """RUN in shell form, with the build's arguments as variables."""
        return self.execute(image, image.user, [*image.shell, text], image.args)

    def then(self, command: str) -> int:
        """What `docker run IMAGE COMMAND` would run."""
        image = self.stages["image"]
        return self.execute(image, image.user, [*image.entrypoint, *shlex.split(command)], {})

    def execute(self, image: Image, user: str, command: Sequence[str], extra: Mapping[str, str]) -> int:
        """Run a command in the image's root, folder and environment, as `user`; its exit code."""
        uid, gid, home = account(image.root, user)
        environment = {"HOME": home, **image.env, **extra, **self.env}
        for outside, inside in self.shown:
            spot = image.root / inside.lstrip("/")
            if not spot.exists():  # what a mount is put on
                spot.parent.mkdir(parents=True, exist_ok=True)
                spot.mkdir() if os.path.isdir(outside) else spot.touch()
        inner = ["setpriv", f"--reuid={uid}", f"--regid={gid}", f"--groups={gid}"]
        inner += ["/usr/bin/env", "-i", f"--chdir={image.folder}"]
        inner += [*(f"{name}={value}" for name, value in environment.items()), *command]
        pairs = [word for pair in self.shown for word in pair]
        outer = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", PREPARE]
        return subprocess.run([*outer, str(image.root), *pairs, "--", *inner], check=False).returncode


def account(root: Path, user: str) -> tuple[int, int, str]:
    """User, group and home of a name or a number, by the root's own /etc/passwd.

    Raises:
        Unusable: there is no such user.
    """
    for line in (root / "etc/passwd").read_text(encoding="utf-8").splitlines():
        name, _, uid, gid, _, home, _ = line.split(":")
        if user in (name, uid):
            return int(uid), int(gid), home
    raise Unusable(f"USER {user}: not in the image's /etc/passwd")


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("work")
    parser.add_argument("--dockerfile", type=Path, default=ROOT / "docker" / "cpu.Dockerfile")
    for name in ("--show", "--env", "--arg", "--then"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(argv)
    try:
        if os.geteuid() != 0:
            raise Unusable("only root can make another root for a command")
        builder = Builder(options)
        for number, (label, work) in enumerate(planned(builder, options), 1):
            print(f"[{number}] {label}", flush=True)
            started = time.monotonic()
            code = work()
            print(f"[{number}] exit code {code}, {time.monotonic() - started:.1f} s", flush=True)
            if code != 0:
                return 1
    except Unusable as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def planned(builder: Builder, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], int]]]:
    """What is shown of each step, and the step."""
    for step in read_steps(options.dockerfile):
        yield f"{step.word} {step.rest}", partial(builder.take, step)
    for command in options.then:
        yield f"then: {command}", partial(builder.then, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

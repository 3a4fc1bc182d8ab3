"""What README.md and docs/ say is run, or looked up, as it stands on the page.

What a page may hold, and what is done with it:

- ```` ```python ````: the blocks of a page are executed in order, in one process of their own, in a temporary folder.
- ```` ```python file=a/b.py ```` (any language): a file with this content is made before that.
- ```` ```diff ````: `--- path`, then hunks without line numbers, parted by `@@`: lines with a blank stay, with `-` go,
  with `+` come. What is there before must be in the file exactly once. A page with files or diffs gets a copy of the
  tree as its folder, so the examples of how to extend the project change nobody's tree.
- Lines of blocks, fenced or indented, that begin with `make train ARGS="..."`, `python -m selfplay.train` or
  `python -m selfplay.doctor` (after `$ ` or `.venv/bin/`) are composed and checked as `dry_run=true` does. A line
  `error: ...` after one is what it must say. Words with `<` are left out. Of other `python -m selfplay...` lines the
  module must exist.
- ```` ```message ````: each line is something the program says, `<...>` for what varies; it must be in the source.
- `key=value` and `algo.x.y`, `cluster.x.y`, ... between backticks: there is such a setting, and it takes the value. In
  docs/<algo>.md the first cell of a table's row gives a setting with its default there.
- Paths (`selfplay/`, `conf/`, `scripts/`, `docs/`, `tests/`) and names (`selfplay.a.b`) between backticks exist.
- Links lead somewhere, anchors included.
- In the section "The report" of docs/<algo>.md, the first cell of a table's row is the name of a figure.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from selfplay.config.errors import ConfigError
from selfplay.config.load import OPEN_SECTIONS, conf_dir, group_options, leaves, load_config, parse
from selfplay.config.multirun import expand
from selfplay.config.plan import describe
from selfplay.config.schema import GROUPS, SCHEMAS
from selfplay.config.tables import experiment_of, rows_of
from selfplay.config.validate import problems
from selfplay.train import parse_arguments

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COPIED = ("selfplay", "conf", "tests/sandbox")  # what the examples of a page with files or diffs work on

COMMAND = re.compile(
    r"(?:\$ )?(?:make train(?: ARGS=\"(?P<args>[^\"]*)\")?"
    r"|(?:\S*/)?python -m selfplay\.(?:train|doctor)\b(?P<words>.*))"
)
MODULE = re.compile(r"python -m (selfplay(?:\.\w+)+)")
SETTING = re.compile(rf"(?P<key>(?:{'|'.join(GROUPS)})(?:\.\w+)+)(?P<rest>\.\*|=(?P<value>\S+))?")
MEMBER = re.compile(rf"(?P<group>{'|'.join(GROUPS)})=(?P<name>\w+)")
TREE_PATH = re.compile(r"(?:selfplay|conf|scripts|docs|tests)/[\w./*-]*")
DOTTED = re.compile(r"selfplay(?:\.\w+)+")
EDITED = sorted(
    page.stem for page in PAGES if re.search(r"^```(\w+ file=|diff)", page.read_text(encoding="utf-8"), re.M)
)


# ---------------------------------------------------------------- pages


@dataclass(frozen=True)
class Block:
    """`info` is what stands behind the fence, "" for an indented block; `line` is that of its first line of text."""

    info: str
    line: int
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def file(self) -> str:
        found = re.search(r"\bfile=(\S+)", self.info)
        return found[1] if found else ""


@dataclass(frozen=True)
class Page:
    """`prose` has as many lines as the page; those of blocks are empty."""

    path: Path
    blocks: tuple[Block, ...]
    prose: tuple[str, ...]

    @property
    def files(self) -> set[str]:
        return {block.file for block in self.blocks if block.file}

    def makes(self, path: str) -> bool:
        """Whether a file of the page has this path, or lies below it."""
        return any(file == path or file.startswith(path.rstrip("/") + "/") for file in self.files)

    def spans(self) -> Iterator[tuple[int, str]]:
        """What stands between backticks, with its line."""
        for number, line in enumerate(self.prose, start=1):
            yield from ((number, span) for span in re.findall(r"`([^`]+)`", line))

    def first_cells(self, section: str = "") -> Iterator[tuple[int, str]]:
        """The spans of the first cells of tables, of one section or of all."""
        title = ""
        for number, line in enumerate(self.prose, start=1):
            title = line.lstrip("# ") if line.startswith("#") else title
            if line.startswith("| ") and section in ("", title):
                yield from ((number, span) for span in re.findall(r"`([^`]+)`", line.split("|")[1]))

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"


@cache
def read(path: Path) -> Page:
    lines = path.read_text(encoding="utf-8").splitlines()
    blocks: list[Block] = []
    prose = list(lines)
    i = 0
    while i < len(lines):
        fence = re.fullmatch(r"```(\S.*)?", lines[i])
        indented = lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip())
        if not fence and not indented:
            i += 1
            continue
        start = i + 1 if fence else i
        end = start
        while end < len(lines) and (lines[end] != "```" if fence else lines[end].startswith("    ")):
            end += 1
        text = "\n".join(line if fence else line[4:] for line in lines[start:end])
        blocks.append(Block((fence[1] or "") if fence else "", start + 1, text))
        stop = end + 1 if fence else end
        prose[i:stop] = [""] * (stop - i)
        i = stop
    return Page(path, tuple(blocks), tuple(prose))


@dataclass(frozen=True)
class Command:
    """The words of a `selfplay.train`, and what it must answer where that is an error."""

    line: int
    words: tuple[str, ...]
    error: str = ""


def commands(block: Block) -> Iterator[Command]:
    lines = block.text.replace("\\\n", " ").splitlines()  # a continued line counts as one; its number is near enough
    for i, line in enumerate(lines):
        found = COMMAND.match(line.strip())
        if found is None or (found["words"] is None and found["args"] is None and "ARGS" in line):
            continue
        words = tuple(
            word for word in shlex.split(found["args"] or found["words"] or "", comments=True) if "<" not in word
        )
        after = lines[i + 1].strip() if i + 1 < len(lines) else ""
        yield Command(block.line + i, words, after if after.startswith("error: ") else "")


def compose(words: Sequence[str]) -> None:
    """As `dry_run=true` would; of a sweep, the first job and the last. Raises ConfigError."""
    arguments = parse_arguments(words)
    overrides = list(arguments.overrides)
    if arguments.multirun and not any(word.startswith("row=") for word in overrides):
        rows = rows_of(conf_dir() / "experiment", experiment_of(parse(overrides)))
        overrides += [f"row={','.join(map(str, range(len(rows))))}"] if rows else []
    jobs = expand(parse(overrides)) if arguments.multirun else [overrides]
    for job in jobs if len(jobs) < 3 else (jobs[0], jobs[-1]):
        describe(load_config(job))


def composes(words: Sequence[str]) -> bool:
    """Whether the words of a sweep compose with a system that has their settings."""
    keys = {word.partition("=")[0] for word in words if word.startswith("algo.")}
    for algo in (algo for algo in SCHEMAS["algo"] if all(algo in known().get(key, ()) for key in keys)):
        try:
            compose([f"algo={algo}", *words])
        except ConfigError:
            continue
        return True
    return False


def check(page: Page, command: Command) -> None:
    try:
        compose(command.words)
        said = ""
    except ConfigError as error:
        said = f"error: {error}"
    assert said == command.error, f"{page.at(command.line)}: {said or 'it composes'}"


# ---------------------------------------------------------------- examples


def apply(page: Page, block: Block, tree: Path) -> None:
    """Carry out a `diff` block."""
    head, *lines = block.text.splitlines()
    path = tree / head.removeprefix("--- ")
    text = path.read_text(encoding="utf-8")
    for parting, hunk in groupby(lines, lambda line: line == "@@"):
        if parting:
            continue
        kept = list(hunk)
        before = "".join(line[1:] + "\n" for line in kept if line[:1] != "+")
        after = "".join(line[1:] + "\n" for line in kept if line[:1] != "-")
        assert text.count(before) == 1, f"{page.at(block.line)}: not once in {path.name}:\n{before}"
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def prepare(page: Page, folder: Path) -> None:
    """The page's files, and the tree that it changes where it changes one."""
    if page.path.stem in EDITED:
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for block in page.blocks:
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "diff":
            apply(page, block, folder)


def environment(folder: Path) -> dict[str, str]:
    """The tree of `folder`, or this one, comes first; so the processes of a run import it too."""
    tree = folder if (folder / "selfplay").is_dir() else ROOT
    return os.environ | {
        "PYTHONPATH": str(tree),
        "SELFPLAY_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_page(path: Path) -> None:
    """In a process of the page's own, in its folder: blocks and commands in order, in one namespace."""
    page = read(path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in page.blocks:
        if block.language == "python" and not block.file:
            exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), names)
        for command in commands(block):
            check(page, command)


WITH_CODE = [page for page in PAGES if any(block.language == "python" for block in read(page).blocks)]
ids = {"ids": lambda page: page.stem}


@pytest.mark.parametrize("path", WITH_CODE, **ids)
def test_the_examples_of_a_page_run(path: Path, tmp_path: Path) -> None:
    prepare(read(path), tmp_path)
    command = [sys.executable, __file__, str(path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", [page for page in PAGES if page not in WITH_CODE], **ids)
def test_the_commands_of_a_page_compose(path: Path) -> None:
    for block in read(path).blocks:
        for command in commands(block):
            check(read(path), command)


def train(folder: Path, words: Sequence[str]) -> None:
    """A run of the command in a tree that a page has changed."""
    command = [sys.executable, "-m", "selfplay.train", *words]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_added_algorithm_trains_and_continues(tmp_path: Path) -> None:
    """With the real engine, in the tree that the page changes."""
    prepare(read(ROOT / "docs" / "adding_an_algorithm.md"), tmp_path)
    sizes = ["algo.specs_per_step=4", "algo.attempts_per_spec=4", "algo.warmup.steps=150", "algo.warmup.n_demos=5000"]
    train(tmp_path, ["algo=rlvr", "algo.steps=2", *sizes])
    (run_dir,) = (tmp_path / "outputs" / "rlvr").iterdir()
    train(tmp_path, [f"resume={run_dir}", "algo.steps=3"])
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(line["rows"] == 16 and 0 <= line["reward/solver"] <= 1 for line in lines)
    assert any(line["grad_norm"] > 0 for line in lines)
    summary = json.loads((run_dir / "summary.json").read_text())
    assert (summary["status"], summary["steps"]) == ("finished", 3)
    command = [sys.executable, "-m", "selfplay.report", str(run_dir)]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True)
    assert (run_dir / "report" / "figures" / "learning.png").is_file()


# ---------------------------------------------------------------- settings


@cache
def composed() -> dict[str, Any]:
    """The settings of every system at its own defaults."""
    return {algo: load_config([f"algo={algo}"]) for algo in SCHEMAS["algo"]}


@cache
def known() -> dict[str, tuple[str, ...]]:
    """Every setting of some system, with the systems that have it; those of a sandbox belong to all."""
    found: dict[str, list[str]] = {}
    for algo, config in composed().items():
        for key, _ in leaves(config):
            found.setdefault(key, []).append(algo)
    for kind in SCHEMAS["sandbox"].values():
        for key, _ in leaves(kind(), "sandbox."):
            found.setdefault(key, list(composed()))
    return {key: tuple(algos) for key, algos in found.items()}


def refused(key: str, value: str) -> str:
    """Why no system takes the value; "" if one does."""
    reason = ""
    for algo in known()[key]:
        config = composed()[algo]
        for kind in [type(config.sandbox), *SCHEMAS["sandbox"].values()] if key.startswith("sandbox.") else [None]:
            tried = config if kind is None else replace(config, sandbox=kind())
            node = OmegaConf.structured(tried)
            OmegaConf.set_readonly(node.sandbox, False)
            try:
                OmegaConf.update(node, key, yaml.safe_load(value))
                found = problems(OmegaConf.to_object(node))  # type: ignore[arg-type]
            except (OmegaConfBaseException, ValueError, TypeError) as error:
                found = [str(error)]
            mine = [problem for problem in found if problem.startswith(key)]
            if not found or (kind is not None and not mine):
                return ""
            reason = found[0]
    return reason


def is_known(key: str) -> bool:
    return key in known() or any(name.startswith(key + ".") for name in known()) or key.startswith(OPEN_SECTIONS)


@pytest.mark.parametrize("path", PAGES, **ids)
def test_settings_exist_and_take_their_values(path: Path) -> None:
    page, wrong = read(path), []
    own = path.stem if path.stem in EDITED else ""  # its members are checked where they are made
    for line, span in page.spans():
        if span.startswith(("-m ", "--multirun ")) and "..." not in span:
            wrong += [] if composes(shlex.split(span)) else [f"{page.at(line)}: {span}"]
            continue
        for word in span.split():
            setting, member = SETTING.fullmatch(word), MEMBER.fullmatch(word)
            if setting and not own and not is_known(setting["key"]):
                wrong.append(f"{page.at(line)}: {word}: there is no such setting")
            elif setting and setting["value"] and setting["key"] in known() and not re.search(r"[<]|\.\.\.", word):
                reason = refused(setting["key"], setting["value"])
                wrong += [f"{page.at(line)}: {word}: {reason}"] if reason else []
            elif member and not own and "..." not in span and member["name"] not in group_options(member["group"]):
                wrong.append(f"{page.at(line)}: {word}: there is no such member")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [page for page in PAGES if page.stem in SCHEMAS["algo"]], **ids)
def test_defaults_are_as_the_tables_say(path: Path) -> None:
    page, wrong, checked = read(path), [], 0
    defaults = dict(leaves(composed()[path.stem]))
    for line, span in page.first_cells():
        found = SETTING.fullmatch(span)
        if not found or not found["value"]:
            continue
        checked += 1
        node = OmegaConf.structured(composed()[path.stem])
        OmegaConf.set_readonly(node.sandbox, False)
        OmegaConf.update(node, found["key"], "" if found["value"] == '""' else yaml.safe_load(found["value"]))
        if OmegaConf.select(node, found["key"]) != defaults[found["key"]]:
            wrong.append(f"{page.at(line)}: {span}, and it is {defaults[found['key']]}")
    assert not wrong, "\n".join(wrong)
    assert checked


# ---------------------------------------------------------------- names, links, messages


@pytest.mark.parametrize("path", PAGES, **ids)
def test_paths_and_names_exist(path: Path) -> None:
    page = read(path)
    named = [(line, span.split()[0]) for line, span in page.spans()]
    for block in page.blocks:
        if not block.info:
            named += [
                (block.line + i, text.split()[0]) for i, text in enumerate(block.text.splitlines()) if text.strip()
            ]
        named += [(block.line, module) for module in MODULE.findall(block.text)]
    named += [(line, module) for line, span in page.spans() for module in MODULE.findall(span)]
    paths = [(line, word) for line, word in named if TREE_PATH.fullmatch(word)]
    wrong = [f"{page.at(line)}: {word}" for line, word in paths if not any(ROOT.glob(word)) and not page.makes(word)]
    wrong += [f"{page.at(line)}: {word}" for line, word in named if DOTTED.fullmatch(word) and not resolves(page, word)]
    assert not wrong, "\n".join(wrong)


def resolves(page: Page, name: str) -> bool:
    """Whether a dotted name is a module, or a name that one has; nothing heavy is imported."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        stem = "/".join(parts[:count])
        rest = parts[count:]
        if f"{stem}.py" in page.files:
            return True
        for file in (ROOT / f"{stem}.py", ROOT / stem / "__init__.py"):
            if file.is_file():
                return len(rest) <= 2 and all(
                    re.search(rf"\b{part}\b", file.read_text(encoding="utf-8")) for part in rest
                )
    return False


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def headings(path: Path) -> set[str]:
    return {slug(line) for line in read(path).prose if line.startswith("#")}


@pytest.mark.parametrize("path", PAGES, **ids)
def test_links_lead_somewhere(path: Path) -> None:
    page, wrong = read(path), []
    for number, line in enumerate(page.prose, start=1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists() or (anchor and anchor not in headings(file)):
                wrong.append(f"{page.at(number)}: {target}")
    assert not wrong, "\n".join(wrong)


HOLE = "\x00"  # what varies in a text of the source


@cache
def said() -> tuple[re.Pattern[str], ...]:
    """The texts of the source that are long enough to be recognised, as patterns with a group for each fixed piece."""
    texts: set[str] = set()
    for file in (ROOT / "selfplay").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(re.sub(r"%[sd]", HOLE, node.value))
            elif isinstance(node, ast.JoinedStr):
                texts.add("".join(str(p.value) if isinstance(p, ast.Constant) else HOLE for p in node.values))
    patterns = []
    for text in texts:
        pieces = [piece for piece in " ".join(text.split()).split(HOLE) if piece]
        if sum(map(len, pieces)) >= 8 and len(text) < 1000:
            patterns.append(".*?".join(f"({re.escape(piece)})" for piece in pieces))
    return tuple(map(re.compile, sorted(patterns)))


def unsaid(message: str) -> float:
    """The share of a message that no text of the source has, what varies left out."""
    message = message.removeprefix("error: ")
    fixed = {i for i in range(len(message)) if not message[i].isspace()}
    for varying in re.finditer(r"<[^>]*>", message):
        fixed -= set(range(*varying.span()))
    found: set[int] = set()
    for pattern in said():
        match = pattern.search(message)
        for group in range(1, pattern.groups + 1 if match else 0):
            assert match is not None
            found |= set(range(*match.span(group)))
    return len(fixed - found) / len(fixed)


def test_messages_are_the_program_s_own() -> None:
    page = read(ROOT / "docs" / "troubleshooting.md")
    lines = [
        (block.line + i, line)
        for block in page.blocks
        if block.language == "message"
        for i, line in enumerate(block.text.splitlines())
    ]
    assert len(lines) > 10
    wrong = [f"{page.at(line)}: {message}" for line, message in lines if unsaid(message) > 0.25]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", [page for page in PAGES if page.stem in SCHEMAS["algo"]], **ids)
def test_figures_are_the_report_s(path: Path) -> None:
    page = read(path)
    sources = [ROOT / "selfplay" / "reporting" / f"{name}.py" for name in (path.stem, "common")]
    drawn = "".join(source.read_text(encoding="utf-8") for source in sources)
    named = list(page.first_cells("The report"))
    assert named
    wrong = [f"{page.at(line)}: {name}" for line, name in named if f'"{name}"' not in drawn]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))

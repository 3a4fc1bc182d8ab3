"""The report of small runs of every system: its figures show the runs' numbers, and the page stands by itself."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from selfplay import report
from selfplay.benchmarks import livecodebench
from selfplay.benchmarks.code_task import CodeTask
from selfplay.curriculum.config import CurriculumConfig, NoveltyConfig
from selfplay.curriculum.curriculum import Curriculum
from selfplay.curriculum.roots import Root
from selfplay.sandbox.judge.cases import StdioTest

SCORE = {"before": [0.2, 0.15, 0.25], "after": [0.5, 0.45, 0.55]}


def run_dir(folder: Path, algo: str, metrics: list[dict[str, Any]], seed: int = 0, **more: Any) -> Path:
    """A finished run as the command leaves it, without checkpoints."""
    folder.mkdir(parents=True)
    config = {"algo": {"name": algo, "optim": {"lr": 0.1 * (1 + seed)}}, "seed": seed, "name": "run"}
    scores: dict[str, Any] = {
        when: {"pass_at_1": mean, "n": 40, "interval": [low, high]} for when, (mean, low, high) in SCORE.items()
    }
    scores["gain"] = {"mean": 0.3, "low": 0.2, "high": 0.4}
    summary = {"status": "finished", "seed": seed, "steps": len(metrics), "seconds": 90.0, "eval": scores}
    summary |= {"timing_s": {"generate": 40.0, "update": 20.5, "sync": 0.1}, "message": "", **more}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "run.json").write_text("{}")
    (folder / "summary.json").write_text(json.dumps(summary))
    lines = [{"step": i, "entropy": 1.0 / i, "tokens": 100 * i, **line} for i, line in enumerate(metrics, start=1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "rollouts").mkdir()
    row = {"key": "k", "role": "solver", "group": "g", "prompt": "<b>ask</b>", "response": "<script>x</script>"}
    row |= {"verdict": "verified", "reward": 1.0, "advantage": 0.5, "detail": ""}
    (folder / "rollouts" / "step_000002.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def ancora(folder: Path, seed: int = 0) -> Path:
    steps = [
        {"q_valid": 0.3 + 0.1 * i, "pass_rate": 0.1 * i + 0.01 * seed, "pool/size": 20 + i, "pool/depth": i}
        | {"rejections": {"format/no spec": 5 - i, "gate/stub": 1}, "verdicts": {"verified": i, "refuted": 9 - i}}
        | {"pool/depths": {"0": 20, "1": i}, "advantage/proposer_std": 0.5, "advantage/solver_std": 0.2 * i}
        for i in range(1, 5)
    ]
    path = run_dir(folder, "ancora", steps, seed)
    roots = [Root("one", "method One() ensures x > 0"), Root("two", "method Two() ensures y > 0")]
    pool = Curriculum(roots, CurriculumConfig(), NoveltyConfig(), seed=0)
    pool.save(path / "checkpoints" / "step_000004" / "pool")
    return path


def anchorloop(folder: Path, seed: int = 0) -> Path:
    steps: list[dict[str, Any]] = []
    for i in range(1, 4):
        steps.append(
            {"phase": "curriculum", "reward": 0.1 * i, "format_valid": 0.9, "reward/tool": 0.5, "gap_positive": 0.2}
        )
        steps.append({"phase": "executor", "reward": 0.2 * i, "structure/zero": 0.5, "structure/collinear": 0.5})
    pool = {"sampled": 20, "kept": 17, "rejected": {"no task": 3}, "duplicates": 1}
    rows = [
        {
            "iteration": i,
            "accuracy": 0.2 + 0.1 * i,
            "pool": pool,
            "seconds": {"executor": 9.0, "anchor": 2.0, "all": 11.0},
        }
        for i in (1, 2)
    ]
    path = run_dir(folder, "anchorloop", steps, seed, iterations=rows)
    (path / "pool").mkdir()
    (path / "pool" / "manifest_001.json").write_text(json.dumps(pool))
    (path / "pool" / "tasks_001.jsonl").write_text(json.dumps({"question": "Compute 2 * 3."}) + "\n")
    return path


def benchevolver(folder: Path, seed: int = 0) -> Path:
    arm = {"tasks": 9, "rewards": [0.1, 0.3, 0.6], "tokens": [9.0, 8.5, 8.0], "accuracy": 0.5, "interval": [0.4, 0.6]}
    row = {
        "round": 1,
        "accepted": 2,
        "rejected": {"no code": 3},
        "families": {"sort": 2},
        "accuracy": {"accepted": 0.5, "seeds_of_accepted": 1.0},
        "again": {"fresh_seeds": 0.9, "fresh": 0.6, "accepted": 0.5, "seeds": 1.0},
        "mixtures": {"seed": arm, "evolved": arm},
    }
    path = run_dir(folder, "benchevolver", [{"phase": "seed", "reward": 0.1}] * 3, seed, iterations=[row])
    lineage = {"seed": "s", "parent": "s", "generation": 1, "family": "sort", "idea": "order"}
    lineage |= {"accuracy_of_seed": 1.0, "accuracy": 0.4}
    task = CodeTask("s.e1", "Sort & print.", (), (StdioTest("1\n", "1\n"),), "x", source={"lineage": lineage})
    record = livecodebench.record_of(task)
    (path / "rounds" / "001").mkdir(parents=True)
    (path / "rounds" / "001" / "evolved.jsonl").write_text(json.dumps(record) + "\n")
    return path


MAKERS: dict[str, Callable[..., Path]] = {"ancora": ancora, "anchorloop": anchorloop, "benchevolver": benchevolver}


class Page(HTMLParser):
    """What the tests look at of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "xlink:href"):
                self.links.append(value or "")


def figures_of(text: str) -> dict[str, str]:
    found = re.findall(r'<figure id="figure-([^"]+)".*?(<svg.*?</svg>)', text, re.DOTALL)
    return dict(found)


@pytest.mark.parametrize("system", MAKERS)
def test_the_page_of_one_run(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = MAKERS[system](tmp_path / "run")
    assert report.main([str(run)]) == 0
    text = (run / "report" / "index.html").read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert "<script>x" not in text  # what a model wrote is text
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:  # nothing leads out of the page
        assert link.startswith(("#", "data:")), link
        assert not link.startswith("#") or link[1:] in page.ids, link
    drawn = figures_of(text)
    assert len(drawn) >= 6
    for name, svg in drawn.items():
        assert svg.count("<path") >= 8, f"{name} has no marks"
        assert (run / "report" / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        with (run / "report" / "figures" / f"{name}.csv").open() as file:
            assert len(list(csv.reader(file))) > 1, name
    assert f"{len(drawn)} figures" in capsys.readouterr().out


def test_a_curve_s_numbers_are_the_run_s(tmp_path: Path) -> None:
    runs = [ancora(tmp_path / str(seed), seed) for seed in (0, 2)]
    assert report.main([*map(str, runs), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "figures" / "learning.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["panel"] == "pass rate"]
    assert [row["curve"] for row in rows] == ["ancora"] * 4  # two seeds, one curve with its band
    assert [float(row["low"]) for row in rows] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert [float(row["mean"]) for row in rows] == pytest.approx([0.11, 0.21, 0.31, 0.41])
    assert [float(row["high"]) for row in rows] == pytest.approx([0.12, 0.22, 0.32, 0.42])
    text = (tmp_path / "out" / "index.html").read_text()
    assert "algo.optim.lr" in text  # a setting that differs
    assert "algo.name" not in text  # and one that does not


def test_the_curriculum_is_drawn_and_listed(tmp_path: Path) -> None:
    run = ancora(tmp_path / "run")
    report.main([str(run)])
    text = (run / "report" / "index.html").read_text()
    assert text.count("<circle") == 2
    assert "method Two() ensures y &gt; 0" in text
    assert len(re.findall(r'<a href="#node-[0-9a-f]{16}"><circle', text)) == 2


def test_different_systems_on_one_page(tmp_path: Path) -> None:
    for system, make in MAKERS.items():
        make(tmp_path / "runs" / system)
    assert report.main([str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    page = Page((tmp_path / "out" / "index.html").read_text())
    assert len(page.ids) == len(set(page.ids))
    assert {"figure-ancora-learning", "figure-anchorloop-executor", "figure-benchevolver-drop"} <= set(page.ids)


def test_one_run_gives_one_page(tmp_path: Path) -> None:
    run = anchorloop(tmp_path / "run")
    pages = []
    for name in ("a", "b"):
        report.main([str(run), "--out", str(tmp_path / name)])
        pages.append(re.sub(r"base64,[^\"]+", "", (tmp_path / name / "index.html").read_text()))
    assert pages[0] == pages[1]


@pytest.mark.parametrize("content", [None, "{"])
def test_what_is_no_run_is_said_in_one_line(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content:
        run_dir(tmp_path / "x", "ancora", [])
        (tmp_path / "x" / "summary.json").write_text(content)
    assert report.main([str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert str(tmp_path / "x") in error


# ---------------------------------------------------------------- in a browser

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MEASURE = """<script>
const wide = document.documentElement.scrollWidth > window.innerWidth;
const empty = [...document.querySelectorAll('figure svg')].filter(e => e.getBoundingClientRect().height < 40).length;
document.title = `wide=${wide} empty=${empty} figures=${document.querySelectorAll('figure svg').length}`;
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1200, 500])  # a desktop, and the narrowest window that headless Chromium gives
@pytest.mark.parametrize("system", MAKERS)
def test_a_browser_shows_every_figure_without_errors(system: str, width: int, tmp_path: Path) -> None:
    run = MAKERS[system](tmp_path / "run")
    report.main([str(run)])
    text = (run / "report" / "index.html").read_text()
    measured = tmp_path / "measured.html"
    measured.write_text(text.replace("</body>", f"{MEASURE}</body>"))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom", measured.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(.*?)</title>", shown.stdout)
    assert title is not None
    assert title[1] == f"wide=false empty=0 figures={len(figures_of(text))}"
    assert "CONSOLE" not in shown.stderr

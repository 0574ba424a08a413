"""What the README shows, run as a reader would: in a program of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import httpx
import pytest
from support import HERE, PATIENCE, WorkerProcess, free_port, until
from turnwise import Turnwise

ROOT = HERE.parent


def quick_start() -> str:
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert found is not None
    return found[1]


def test_the_quick_start_has_ten_lines_and_runs(workers_url: str, folder: Path) -> None:
    program = quick_start()
    assert sum(bool(line.strip()) for line in program.splitlines()) <= 10
    file = folder / "greet.py"
    file.write_text(program.replace("http://127.0.0.1:8080", workers_url))
    process = WorkerProcess(file)
    try:
        with Turnwise(workers_url) as turnwise:
            job = until(lambda: next((job for job in turnwise.jobs(task="greet", state="success") if job.task == "greet"), None), "its end")
            assert job.result == "greeted ann"
            assert job.group == "acme"
            assert [line.text for line in turnwise.log(job.id)] == ["hello ann"]
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.close()


def test_the_web_application_submits_runs_and_stops(workers_url: str) -> None:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "web:app", "--port", str(port), "--log-level", "warning"],
        cwd=ROOT / "examples", env={**os.environ, "TURNWISE_SERVER": workers_url},
    )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as web:
            id = until(lambda: answered(web) or process.poll() is not None, "its first answer")
            assert process.poll() is None
            report = until(lambda: (said := web.get(f"/reports/{id}").json())["state"] == "success" and said, "the report")
            assert report == {"state": "success", "result": {"rows": 300}, "progress": 3}
            assert web.get("/reports/0190163d-8694-739b-aea5-966c26f8ad91").status_code == 404
        with Turnwise(workers_url) as turnwise:
            assert [line.text for line in turnwise.log(id)] == ["300 rows for acme"]
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        process.wait(PATIENCE)
        assert time.monotonic() - began < PATIENCE
    finally:
        process.kill()
        process.wait()


def answered(web: httpx.Client) -> str | None:
    try:
        return str(web.post("/reports", json={"customer": "acme", "pages": 3}).json()["id"])
    except httpx.TransportError:
        return None


def test_the_examples_of_the_guide_are_programs_and_its_tests_pass(folder: Path) -> None:
    guide = next((file for file in (ROOT / "python.md", ROOT.parent.parent / "docs/guides/python.md") if file.exists()), None)
    if guide is None:
        pytest.skip("the guide is not in this package")
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.S)
    assert len(blocks) >= 5
    for number, block in enumerate(blocks):
        module = types.ModuleType(f"block_{number}")
        sys.modules[module.__name__] = module
        exec(compile(block, f"{guide.name}, block {number}", "exec"), vars(module))
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    assert len(tests) == 2
    for one in tests:
        one()


def test_the_licences_are_those_of_the_whole() -> None:
    if not (ROOT / "LICENSE-MIT").exists() or not (ROOT.parent.parent / "LICENSE-MIT").exists():
        pytest.skip("not in a checkout")
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert (ROOT / name).read_text() == (ROOT.parent.parent / name).read_text()

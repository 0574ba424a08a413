"""What only a real server and real processes can show. Needs TURNWISE_BIN."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support import BINARY, PATIENCE, Alternating, RealServer, WorkerProcess, free_port, speaks_the_protocol, until, working

from turnwise import AsyncCtx, Ctx, Forbidden, Request, Turnwise, Unauthorized, Unreachable, Worker, task

pytestmark = pytest.mark.skipif(BINARY is None, reason="TURNWISE_BIN names no turnwise")
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def place(folder: Path) -> Iterator[RealServer]:
    """A server of the test's own, which it may kill; it comes back at the same address."""
    one = RealServer(folder, free_port())
    if not speaks_the_protocol(one):
        one.stop()
        pytest.fail("this turnwise has no routes for workers")
    try:
        yield one
    finally:
        one.kill()


@task("noop")
async def noop(ctx: AsyncCtx, args: object) -> None: ...


def runs(turnwise: Turnwise, id: str) -> list[str]:
    return [attempt["ending"] for attempt in turnwise.job(id).raw["attempts"]]


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_server_that_is_killed_or_deployed_anew_costs_no_job(place: RealServer, end: str) -> None:
    ran: list[int] = []
    held, go_on = threading.Event(), threading.Event()

    @task("careful")
    def careful(ctx: Ctx, args: int) -> int:
        if args == 0:
            held.set()
            go_on.wait(PATIENCE)
        ctx.step("mark", lambda: ran.append(args))
        return args

    with Turnwise(place.url) as turnwise, working(place.url, careful, slots=4, buffer=8, lease=60):
        ids = [one.id for one in turnwise.submit_all([Request("careful", n) for n in range(50)])]
        assert held.wait(PATIENCE)
        getattr(place, end)()
        go_on.set()
        place.start()
        for number, id in enumerate(ids):
            assert turnwise.result(id, PATIENCE) == number
        assert sorted(ran) == list(range(50)), "each ran once"


@pytest.mark.parametrize("name", ["hog", "hog-async"], ids=["in a thread", "in the loop"])
def test_a_task_that_keeps_pythons_lock_for_three_leases_is_not_lost(place: RealServer, name: str) -> None:
    process = WorkerProcess(PROGRAMS / "hog.py", place.url)
    try:
        with Turnwise(place.url) as turnwise:
            id = turnwise.submit(name, 15.5).id
            assert turnwise.result(id, PATIENCE) == "through"
            assert runs(turnwise, id) in ([], ["done"]), "one run, and it ended well"
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.close()


def test_the_jobs_of_a_killed_worker_are_run_by_another_and_a_woken_one_changes_nothing(place: RealServer) -> None:
    killed, stopped = WorkerProcess(PROGRAMS / "patient.py", place.url), WorkerProcess(PROGRAMS / "patient.py", place.url)

    @task("patient")
    def patient(ctx: Ctx, args: str) -> str:
        return f"{args} by another"

    try:
        with Turnwise(place.url) as turnwise:
            killed_id, stopped_id = turnwise.submit("patient", "one").id, turnwise.submit("patient", "two").id
            # Either has got both, or each has one: whatever each has begun, it is never ended by these two.
            until(lambda: all(turnwise.job(id).state in ("running", "scheduled") for id in (killed_id, stopped_id)), "their begin")
            killed.send(signal.SIGKILL)
            stopped.send(signal.SIGSTOP)
            with working(place.url, patient):
                assert turnwise.result(killed_id, PATIENCE) == "one by another"
                assert turnwise.result(stopped_id, PATIENCE) == "two by another"
            stopped.send(signal.SIGCONT)
            stopped.send(signal.SIGTERM)
            assert stopped.wait() == 0
            assert turnwise.job(stopped_id).result == "two by another"
    finally:
        killed.close()
        stopped.close()


def test_a_worker_and_its_server_may_be_killed_together(place: RealServer) -> None:
    process = WorkerProcess(PROGRAMS / "patient.py", place.url)

    @task("patient")
    def patient(ctx: Ctx, args: str) -> str:
        return f"{args} by another"

    try:
        with Turnwise(place.url) as turnwise:
            id = turnwise.submit("patient", "both").id
            process.line("begun")
            process.send(signal.SIGKILL)
            place.kill()
            place.start()
            with working(place.url, patient):
                assert turnwise.result(id, PATIENCE) == "both by another"
    finally:
        process.close()


def test_two_servers_answer_one_worker_in_turn_and_are_deployed_one_after_another(place: RealServer, folder: Path) -> None:
    other = RealServer(folder, free_port(), name="other")
    between = Alternating(place, other)
    ran: list[int] = []
    half, go_on = threading.Event(), threading.Event()

    @task("steady")
    def steady(ctx: Ctx, args: int) -> int:
        if args == 0:
            half.set()
            go_on.wait(PATIENCE)
        ctx.log(f"job {args}")
        ctx.step("mark", lambda: ran.append(args))
        return args

    try:
        with Turnwise(between.url) as turnwise, working(between.url, steady, slots=4, lease=60):
            ids = [one.id for one in turnwise.submit_all([Request("steady", n) for n in range(20)])]
            assert half.wait(PATIENCE)
            for server in (place, other):
                server.stop()
                ids += [one.id for one in turnwise.submit_all([Request("steady", n) for n in range(len(ids), len(ids) + 20)])]
                server.start()
            go_on.set()
            for number, id in enumerate(ids):
                assert turnwise.result(id, PATIENCE) == number
                assert [line.text for line in turnwise.log(id)] == [f"job {number}"]
            assert sorted(ran) == list(range(60)), "each ran once"
    finally:
        between.close()
        other.kill()


def token(folder: Path, *words: str) -> str:
    assert BINARY is not None
    env = {name: value for name, value in os.environ.items() if not name.startswith("TURNWISE_")}
    done = subprocess.run(
        [BINARY, "--database", f"sqlite:{folder / 'jobs.db'}", "token", "create", *words],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip().splitlines()[-1]


def test_a_worker_does_what_its_token_may(place: RealServer, folder: Path) -> None:
    all_of_it = token(folder, "--name", "all", "--scope", "submit,read,operate")
    works = token(folder, "--name", "works", "--scope", "work", "--queue", "mail")
    until(lambda: httpx.get(f"{place.url}/api/v1/jobs", trust_env=False).status_code == 401, "the need for a token")
    with pytest.raises(Unauthorized):
        Worker(place.url, tasks=[noop]).run()
    with pytest.raises(Unauthorized):
        Worker(place.url, "tw_" + "A" * 43, tasks=[noop]).run()
    with pytest.raises(Forbidden):
        Worker(place.url, all_of_it, tasks=[noop]).run()
    with Turnwise(place.url, all_of_it) as turnwise:
        with pytest.raises(Forbidden), Turnwise(place.url, works) as other:
            other.submit("noop")
        raised: list[BaseException] = []
        worker = Worker(place.url, works, tasks=[noop], lease=5)

        def run() -> None:
            try:
                worker.run()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        mail, other_queue = turnwise.submit("noop", queue="mail").id, turnwise.submit("noop", queue="other").id
        assert turnwise.wait(mail, PATIENCE).state == "success"
        assert turnwise.job(other_queue).state == "waiting"
        subprocess.run(
            [str(BINARY), "--database", f"sqlite:{folder / 'jobs.db'}", "token", "revoke", works[:11]], cwd=folder, check=True, capture_output=True
        )
        thread.join(PATIENCE)
        assert not thread.is_alive() and isinstance(raised[0], Unauthorized), "a revoked token ends it"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_clients_worker_and_beats_check_the_certificate_of_a_server(folder: Path) -> None:
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run([*made, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True)
    server = RealServer(folder, tls=(cert, key))
    try:
        with Turnwise(server.url, retry_for=0) as stranger, pytest.raises(Unreachable, match="certificate verify failed"):
            stranger.submit("noop")
        with Turnwise(server.url, ca=str(cert)) as turnwise, working(server.url, noop, ca=str(cert), lease=5) as worker:
            assert turnwise.wait(turnwise.submit("noop").id, PATIENCE).state == "success"
            assert worker._engine is not None
            first = worker._engine._contact
            until(lambda: worker._engine is not None and worker._engine._contact > first, "the answer to a beat")
    finally:
        server.kill()


def test_the_server_shows_the_worker_with_its_language_and_client(place: RealServer) -> None:
    with working(place.url, noop, name="shown", slots=3):
        nodes = httpx.get(f"{place.url}/api/v1/nodes", trust_env=False).json()["nodes"]
        shown = next(node for node in nodes if node["name"] == "shown")
        assert shown["slots"] == 3
        said = str(shown)
        assert "python 3." in said and "turnwise-python 0.1.0" in said

"""What a worker does when answers are lost, servers are away or busy, and tasks block: at a server in memory that can do all that."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
import stoppable_tasks
from support import PATIENCE, WorkerProcess, group_of, until, working
from turnwise import AsyncCtx, Ctx, Forbidden, Request, Turnwise, Unauthorized, Worker, task
from turnwise.testing import Fault, Server

PROGRAMS = Path(__file__).parent / "programs"
linux = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


@task("noop")
async def noop(ctx: AsyncCtx, args: object) -> None: ...


@pytest.mark.parametrize("kind", ["lose", "refuse", "double", "status"])
@pytest.mark.parametrize("verb", ["register", "take", "beat", "note", "settle", "leave"])
def test_every_third_answer_of_a_verb_may_be_lost_and_each_job_runs_once(verb: str, kind: str) -> None:
    ran: Counter[int] = Counter()

    @task("once")
    def once(ctx: Ctx, args: int) -> int:
        ran[args] += 1
        ctx.log(f"job {args}")
        return args

    def fault(asked: str, number: int) -> Fault | None:
        # The first of each verb goes wrong, too.
        return Fault(kind, 503) if asked == verb and number % 3 == 0 else None

    with Server(fault=fault) as server, Turnwise(server.url) as turnwise:
        with working(server.url, once, slots=4, buffer=4, lease=5):
            ids = [one.id for one in turnwise.submit_all([Request("once", n) for n in range(12)])]
            for number, id in enumerate(ids):
                assert turnwise.result(id, PATIENCE) == number
                assert server.lines(id) == [f"job {number}"]
                assert [(how, begun) for _, how, begun in server.runs(id)] == [("done", True)]
        assert server.workers() == [], "it has left"
    assert set(ran.values()) == {1}


def test_a_server_that_is_away_for_less_than_a_lease_costs_no_job() -> None:
    begun, go_on = threading.Event(), threading.Event()

    @task("long")
    def long(ctx: Ctx, args: None) -> str:
        begun.set()
        go_on.wait(PATIENCE)
        ctx.log("still here")
        return "done"

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, long, lease=60):
        id = turnwise.submit("long").id
        assert begun.wait(PATIENCE)
        server.away = True
        go_on.set()
        notes = server.count("note")
        until(lambda: server.count("note") > notes + 2, "a note that is not answered")
        server.away = False
        assert turnwise.result(id, PATIENCE) == "done"
        assert server.lines(id) == ["still here"]
        assert len(server.runs(id)) == 1


def test_a_lost_worker_stops_what_it_runs_and_registers_anew() -> None:
    reasons: list[str | None] = []

    @task("told")
    def told(ctx: Ctx, args: None) -> str:
        if len(reasons) == 0 and ctx.wait(PATIENCE):
            reasons.append(ctx.reason)
            return "too late"
        return "by the second"

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, told, lease=5):
        id = turnwise.submit("told").id
        server.until(lambda: server.held() == 1 and server.workers())
        server.until(lambda: server.count("beat") >= 1)
        first = server.workers()[0]
        server.lose(first)
        assert turnwise.result(id, PATIENCE) == "by the second"
        assert reasons == ["gone"]
        assert server.workers() != [first]
        assert [how for _, how, _ in server.runs(id)] == ["lost", "done"]


def test_a_job_that_comes_back_under_a_new_fence_ends_its_earlier_run() -> None:
    begun: list[int] = []
    reasons: list[str | None] = []

    @task("again")
    def again(ctx: Ctx, args: None) -> int:
        begun.append(ctx.fence)
        if ctx.fence == 1:
            ctx.wait(PATIENCE)
            reasons.append(ctx.reason)
        return ctx.fence

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, again, slots=2):
        id = turnwise.submit("again").id
        until(lambda: begun == [1], "its first run")
        server.take_away(id)
        assert turnwise.result(id, PATIENCE) == 2
        until(lambda: reasons == ["gone"], "the end of the first")
        assert [(fence, how) for fence, how, _ in server.runs(id)] == [(2, "done")]


def test_jobs_that_a_limit_counts_stop_at_four_fifths_of_a_lease_without_an_answer_and_no_others() -> None:
    seen: list[tuple[str | None, int]] = []

    @task("limited")
    async def limited(ctx: AsyncCtx, args: None) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            seen.append((ctx.reason, len(server.workers())))

    released = threading.Event()

    @task("unlimited")
    def unlimited(ctx: Ctx, args: None) -> str:
        released.wait(PATIENCE)
        return ctx.reason or "ran on"

    with Server(limited=["limited"]) as server, Turnwise(server.url) as turnwise, working(server.url, limited, unlimited, lease=10):
        one, other = turnwise.submit("limited").id, turnwise.submit("unlimited").id
        server.until(lambda: server.held() == 2 and server.count("beat") >= 1)
        server.away = True
        until(lambda: seen, "the stop of the limited job")
        assert seen == [("doubt", 1)], "before its lease was over, by the server's clock"
        server.away = False
        released.set()
        until(lambda: server.state(other) == "success", "the end of the other one")
        assert turnwise.job(other).result == "ran on"
        assert server.runs(one)[0][1] in ("interrupted", "lost")


class WorkerFor(WorkerProcess):
    def __init__(self, server: Server, program: str, *words: str) -> None:
        super().__init__(PROGRAMS / program, server.url, *words)

    def __enter__(self) -> WorkerFor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.mark.parametrize("name", ["hog", "hog-async"], ids=["in a thread", "in the loop"])
def test_a_task_that_keeps_pythons_lock_for_three_leases_is_not_lost(name: str) -> None:
    # The server lives in this process, which nothing blocks.
    with Server(lease=3.0) as server, Turnwise(server.url) as turnwise, WorkerFor(server, "hog.py") as process:
        id = turnwise.submit(name, 9.5).id
        assert turnwise.result(id, PATIENCE) == "through"
        assert [how for _, how, _ in server.runs(id)] == ["done"]
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_a_worker_that_is_stopped_beyond_its_lease_and_woken_changes_nothing_of_its_jobs() -> None:
    with Server(lease=3.0) as server, Turnwise(server.url) as turnwise, WorkerFor(server, "patient.py") as process:
        id = turnwise.submit("patient", "first").id
        process.line("begun")
        process.send(signal.SIGSTOP)
        server.until(lambda: server.workers() == [])
        assert server.runs(id) == [(1, "lost", True)]
        with working(server.url, stoppable_tasks.product, lease=5):
            process.send(signal.SIGCONT)
            process.line("gone")
            process.line("begun")
            server.until(lambda: server.state(id) == "running")
            assert len(server.runs(id)) == 1, "the end of the first run was not written"


@linux
def test_a_killed_worker_takes_all_its_processes_with_it() -> None:
    with Server(lease=3.0) as server, Turnwise(server.url) as turnwise, WorkerFor(server, "patient.py") as process:
        turnwise.submit("never-ends")
        server.until(lambda: server.held() == 1)
        until(lambda: len(group_of(process.pid)) >= 3, "the process that beats and the one of the task")
        process.send(signal.SIGKILL)
        process.wait()
        until(lambda: group_of(process.pid) == [], "their end")
        server.until(lambda: server.workers() == [])


@linux
def test_a_beating_process_that_dies_is_replaced() -> None:
    with Server(lease=2.0) as server, Turnwise(server.url) as turnwise, working(server.url, noop, lease=5) as worker:
        assert worker._engine is not None and worker._engine._beats is not None
        first = worker._engine._beats.pid
        os.kill(first, signal.SIGKILL)
        until(lambda: worker._engine is not None and worker._engine._beats is not None and worker._engine._beats.pid != first, "another one")
        beats = server.count("beat")
        server.until(lambda: server.count("beat") > beats + 1)
        assert turnwise.wait(turnwise.submit("noop").id, PATIENCE).state == "success"
        assert len(server.workers()) == 1


def test_sigterm_lets_tasks_end_and_a_second_one_interrupts_them() -> None:
    with Server() as server, Turnwise(server.url) as turnwise:
        with WorkerFor(server, "patient.py") as process:
            id = turnwise.submit("patient", "first").id
            process.line("begun")
            # As systemd does it: to all processes of the service.
            process.send_all(signal.SIGTERM)
            server.until(lambda: server.slots() == 0)
            assert server.state(id) == "running"
            process.send_all(signal.SIGTERM)
            process.line("stopping")
            assert process.wait() == 0
        assert (server.state(id), server.workers()) == ("waiting", [])
        assert server.runs(id) == [(1, "interrupted", True)]


def test_sigterm_stops_a_worker_whose_loop_is_blocked() -> None:
    with Server() as server, Turnwise(server.url) as turnwise, WorkerFor(server, "hog.py") as process:
        turnwise.submit("block-async", 2.0)
        server.until(lambda: server.held() == 1)
        process.line("blocking")
        process.send(signal.SIGTERM)
        server.until(lambda: server.slots() == 0)
        assert server.held() == 1
        assert process.wait() == 0


def test_a_name_that_is_taken_is_waited_for() -> None:
    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, noop, name="the-one") as first:
        second = Worker(server.url, tasks=[noop], name="the-one")
        thread = threading.Thread(target=second.run)
        thread.start()
        server.until(lambda: server.count("register") >= 3)
        assert len(server.workers()) == 1
        first.stop()
        assert second.wait_until_registered(PATIENCE)
        assert turnwise.wait(turnwise.submit("noop").id, PATIENCE).state == "success"
        second.stop()
        thread.join(PATIENCE)


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthorized), (403, Forbidden)])
@pytest.mark.parametrize("verb", ["register", "take", "beat", "settle"])
def test_a_token_that_does_not_work_stops_the_worker_with_what_the_server_said(verb: str, status: int, kind: type[Exception]) -> None:
    with Server(fault=lambda asked, n: Fault("status", status) if asked == verb else None) as server, Turnwise(server.url) as turnwise:
        turnwise.submit("noop")
        with pytest.raises(kind, match="a fault of the test"):
            Worker(server.url, tasks=[noop], lease=5).run()


def test_a_settle_that_is_answered_with_409_makes_the_worker_register_anew() -> None:
    with Server(fault=lambda asked, n: Fault("status", 409) if asked == "settle" and n == 0 else None) as server, Turnwise(server.url) as turnwise:
        with working(server.url, noop, lease=5):
            id = turnwise.submit("noop").id
            server.until(lambda: len(server.workers()) == 2)
            server.lose(server.workers()[0])
            assert turnwise.wait(id, PATIENCE).state == "success"
            assert [how for _, how, _ in server.runs(id)] == ["lost", "done"]


def test_a_process_of_a_task_that_dies_is_an_error_of_the_job() -> None:
    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, stoppable_tasks.exits, stoppable_tasks.product):
        job = turnwise.wait(turnwise.submit("exits", 3).id, PATIENCE)
        assert (job.state, job.error) == ("failed", "the process of the task ended with exit code 3")
        assert turnwise.result(turnwise.submit("product", {"a": 1, "b": 1}).id, PATIENCE) == {"sum": 2}


def test_one_end_that_cannot_be_stored_does_not_spoil_others() -> None:
    @task("nul")
    async def nul(ctx: AsyncCtx, args: bool) -> object:
        return "\0" if args else "fine"

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, nul):
        bad, good = [one.id for one in turnwise.submit_all([Request("nul", True), Request("nul", False)])]
        assert turnwise.result(good, PATIENCE) == "fine"
        assert turnwise.wait(bad, PATIENCE).state == "failed"


def test_an_end_that_is_too_large_for_a_proxy_is_found_by_halves() -> None:
    together = threading.Barrier(3)

    @task("large")
    def large(ctx: Ctx, args: bool) -> str:
        together.wait(PATIENCE)
        return "x" * (500_000 if args else 1)

    with Server(most_bytes=100_000) as server, Turnwise(server.url) as turnwise, working(server.url, large):
        ids = [one.id for one in turnwise.submit_all([Request("large", n == 1) for n in range(3)])]
        jobs = [turnwise.wait(id, PATIENCE) for id in ids]
    assert [job.state for job in jobs] == ["success", "failed", "success"]
    assert "the server refused how it ended" in (jobs[1].error or "")


def test_a_result_that_is_too_large_fails_its_job() -> None:
    @task("huge")
    async def huge(ctx: AsyncCtx, args: None) -> str:
        return "x" * (1024 * 1024)

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, huge):
        job = turnwise.wait(turnwise.submit("huge").id, PATIENCE)
        assert job.state == "failed" and "at most 1048576 are allowed" in (job.error or "")


def test_lines_that_come_too_fast_are_dropped_and_counted() -> None:
    @task("flood")
    def flood(ctx: Ctx, args: None) -> None:
        for number in range(50_000):
            ctx.log(str(number))

    with Server() as server, Turnwise(server.url) as turnwise, working(server.url, flood):
        id = turnwise.submit("flood").id
        assert turnwise.wait(id, PATIENCE).state == "success"
        lines = server.lines(id)
        dropped = sum(int(line.split()[0]) for line in lines if "were dropped" in line)
        kept = [line for line in lines if "were dropped" not in line]
        assert dropped + len(kept) == 50_000
        assert kept[-1] == "49999"


def test_a_worker_that_is_stopped_while_no_server_answers_ends_all_the_same() -> None:
    begun = threading.Event()

    @task("deaf-to-all")
    async def deaf(ctx: AsyncCtx, args: None) -> None:
        begun.set()
        await asyncio.sleep(PATIENCE)

    with Server() as server, Turnwise(server.url) as turnwise:
        turnwise.submit("deaf-to-all")
        with working(server.url, deaf, stop_timeout=0.1):
            assert begun.wait(PATIENCE)
            server.away = True
        server.away = False
        assert len(server.workers()) == 1, "it has not left: its lease will be over"


@linux
def test_a_signal_to_all_processes_right_at_the_start_stops_the_worker_alone() -> None:
    with Server() as server, WorkerFor(server, "patient.py") as process:
        until(lambda: len(group_of(process.pid)) >= 2, "the process that beats, which is still starting")
        process.send_all(signal.SIGTERM)
        assert process.wait() in (0, -signal.SIGTERM), "before it listens to signals, the worker ends by the first"
        until(lambda: group_of(process.pid) == [], "the end of all")
        assert server.workers() == []

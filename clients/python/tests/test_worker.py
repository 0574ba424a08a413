"""Workers: at a server in memory, and at a real one."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import stoppable_tasks as tasks
from support import PATIENCE, until, working
from turnwise import AsyncCtx, Ctx, Fail, JobFailed, JobLogHandler, Next, Request, Retry, Snooze, Task, Turnwise, Worker, task

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def queue() -> str:
    """A queue of the test's own: other tests use the same server."""
    return f"queue-{uuid.uuid4()}"


@pytest.fixture
def turnwise(workers_url: str) -> Iterator[Turnwise]:
    with Turnwise(workers_url) as one:
        yield one


@dataclass
class Pair:
    a: int
    b: int


@task("add")
def add(ctx: Ctx, args: Pair) -> dict[str, int]:
    return {"sum": args.a + args.b}


@task("add-later")
async def add_later(ctx: AsyncCtx, args: Pair) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"sum": args.a + args.b}


@pytest.mark.parametrize("one", [add, add_later, tasks.product], ids=["in a thread", "in the loop", "in a process"])
def test_a_job_is_run_and_its_result_is_kept(workers_url: str, turnwise: Turnwise, queue: str, one: Task[Pair, object]) -> None:
    with working(workers_url, one, queues=[queue]):
        id = turnwise.submit(one, {"a": 3, "b": 4}, queue=queue).id
        assert turnwise.result(id, PATIENCE) == {"sum": 7}
        job = turnwise.job(id)
        assert (job.state, job.attempt) == ("success", 1)


def test_an_error_is_tried_again_by_the_tasks_policy(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    attempts = []

    @task("flaky", retry="durations:10ms,10ms")
    def flaky(ctx: Ctx, args: None) -> str:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise RuntimeError("no water") from OSError("the tap is closed")
        return "wet"

    with working(workers_url, flaky, queues=[queue]):
        id = turnwise.submit("flaky", queue=queue).id
        assert turnwise.result(id, PATIENCE) == "wet"
        assert attempts == [1, 2, 3]
        assert any("RuntimeError: no water" in line.text for line in turnwise.log(id)), "the traceback is in the job's log"


def test_each_way_to_end_is_understood(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    seen: list[int] = []

    @task("end")
    def end(ctx: Ctx, args: str) -> object:
        if args == "fail":
            raise Fail("there is no document 7")
        if args == "retry":
            raise Retry("the printer is busy")
        if args == "next":
            return Next("end", "done", {"delay": 0.01})
        if args == "snooze":
            if seen:
                return "woken"
            seen.append(ctx.fence)
            raise Snooze("10ms")
        if args == "strange":
            return {"a set"}
        return args

    with working(workers_url, end, queues=[queue]):

        def ended(args: str, retry: str = "exponential:10s,5") -> tuple[str, object, str | None]:
            job = turnwise.wait(turnwise.submit("end", args, queue=queue, retry=retry).id, PATIENCE)
            return job.state, job.result, job.error

        assert ended("done") == ("success", "done", None)
        assert ended("fail") == ("failed", None, "there is no document 7")
        assert ended("retry", retry="none") == ("failed", None, "the printer is busy")
        assert ended("next")[:2] == ("success", "done")
        assert ended("snooze")[:2] == ("success", "woken")
        state, _, error = ended("strange")
        assert state == "failed" and error is not None and "cannot be stored" in error
        with pytest.raises(JobFailed, match="there is no document 7"):
            turnwise.result(turnwise.submit("end", "fail", queue=queue).id, PATIENCE)


def test_steps_are_run_once_and_a_long_sleep_gives_the_slot_back(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    ran = []

    @task("story", retry="durations:10ms")
    def story(ctx: Ctx, args: None) -> list[object]:
        first = ctx.step("first", lambda: ran.append("first") or {"n": 1})  # type: ignore[func-returns-value]
        ctx.sleep(1.2)
        second = ctx.step("second", lambda: ran.append("second") or 2)  # type: ignore[func-returns-value]
        if ctx.attempt == 1:
            raise Retry
        return [first, second]

    @task("short")
    async def short(ctx: AsyncCtx, args: None) -> None: ...

    with working(workers_url, story, short, queues=[queue], slots=1):
        id = turnwise.submit("story", queue=queue).id
        until(lambda: turnwise.job(id).steps.get("sleep 1"), "the sleep")
        assert turnwise.wait(turnwise.submit("short", queue=queue).id, PATIENCE).state == "success"
        assert turnwise.result(id, PATIENCE) == [{"n": 1}, 2]
        assert ran == ["first", "second"]


def test_async_steps_and_sleeps_do_the_same(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    ran = []

    async def fetch() -> str:
        ran.append("fetch")
        return "text"

    @task("async-story")
    async def story(ctx: AsyncCtx, args: None) -> str:
        text = await ctx.step("fetch", fetch)
        await ctx.sleep(0.01)
        await ctx.sleep(1.1)
        return text

    with working(workers_url, story, queues=[queue]):
        assert turnwise.result(turnwise.submit("async-story", queue=queue).id, PATIENCE) == "text"
        assert ran == ["fetch"]


@pytest.mark.parametrize("one", [tasks.talk, tasks.talk_in_a_process, tasks.talk_async], ids=["in a thread", "in a process", "in the loop"])
def test_log_and_progress_reach_the_job_while_it_runs(workers_url: str, turnwise: Turnwise, queue: str, one: Task[None, object]) -> None:
    handler = JobLogHandler()
    logging.getLogger("tasks").addHandler(handler)
    logging.getLogger("tasks").setLevel(logging.DEBUG)
    try:
        with working(workers_url, one, queues=[queue]):
            id = turnwise.submit(one, None, queue=queue, traceparent=TRACE).id
            job = until(lambda: (job := turnwise.job(id)).progress and job, "progress")
            assert (job.progress.done, job.progress.total, job.progress.text) == (3, 10, "pages")
            lines = until(lambda: len(lines := turnwise.log(id)) >= 4 and lines, "the log")
            assert [(line.level, line.text) for line in lines] == [
                ("info", "hello"), ("warn", "café ☕"), ("debug", "from logging"), ("info", f"trace {TRACE}"),
            ]  # fmt: skip
            assert turnwise.cancel(id) == "cancel_requested"
            assert turnwise.wait(id, PATIENCE).state == "cancelled"
    finally:
        logging.getLogger("tasks").removeHandler(handler)


def test_all_lines_are_there_when_the_job_has_ended(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    @task("chatter")
    def chatter(ctx: Ctx, args: None) -> None:
        for number in range(900):
            ctx.log(str(number))

    with working(workers_url, chatter, queues=[queue]):
        id = turnwise.submit("chatter", queue=queue).id
        assert turnwise.wait(id, PATIENCE).state == "success"
        assert [line.text for line in turnwise.log(id)] == [str(number) for number in range(900)]


@pytest.mark.parametrize("one", [tasks.wait_sync, tasks.wait_async, tasks.never_ends], ids=["in a thread", "in the loop", "in a process that hears nothing"])
def test_a_cancel_reaches_a_job_that_runs(workers_url: str, turnwise: Turnwise, queue: str, one: Task[None, object]) -> None:
    with working(workers_url, one, queues=[queue]):
        id = turnwise.submit(one, None, queue=queue).id
        until(lambda: any(line.text == "begun" for line in turnwise.log(id)), "its begin")
        began = time.monotonic()
        assert turnwise.cancel(id) == "cancel_requested"
        assert turnwise.wait(id, PATIENCE).state == "cancelled"
        if one is not tasks.never_ends:
            assert time.monotonic() - began < 8, "it is told of it by the take that waits, not by the next beat"


@pytest.mark.parametrize("one", [tasks.wait_sync, tasks.wait_async, tasks.never_ends], ids=["in a thread", "in the loop", "in a process that hears nothing"])
def test_a_job_whose_time_is_over_is_stopped(workers_url: str, turnwise: Turnwise, queue: str, one: Task[None, object]) -> None:
    with working(workers_url, one, queues=[queue]):
        id = turnwise.submit(one, None, queue=queue, timeout="500ms", retry="none").id
        job = turnwise.wait(id, PATIENCE)
        assert job.state == "failed"


def test_a_task_that_does_not_stop_keeps_its_slot_and_no_other_job(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    over = threading.Event()

    @task("deaf")
    def deaf(ctx: Ctx, args: None) -> None:
        over.wait(PATIENCE)

    try:
        with working(workers_url, deaf, add, queues=[queue], slots=2):
            id = turnwise.submit("deaf", queue=queue, timeout="100ms", retry="none").id
            assert turnwise.wait(id, PATIENCE).state == "failed"
            ids = [turnwise.submit(add, Pair(n, 1), queue=queue).id for n in range(10)]
            assert [turnwise.result(one, PATIENCE)["sum"] for one in ids] == list(range(1, 11))
            over.set()
    finally:
        over.set()


def test_jobs_run_side_by_side_up_to_the_slots(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    together = threading.Barrier(4)

    @task("together")
    def meet(ctx: Ctx, args: None) -> None:
        together.wait(PATIENCE)

    with working(workers_url, meet, queues=[queue], slots=4):
        for id in [one.id for one in turnwise.submit_all([Request("together", None, {"queue": queue})] * 8)]:
            assert turnwise.wait(id, PATIENCE).state == "success"


def test_many_jobs_run_each_once(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    ran: list[int] = []

    @task("count")
    async def count(ctx: AsyncCtx, args: int) -> None:
        ran.append(args)

    with working(workers_url, count, queues=[queue], slots=50, buffer=200):
        turnwise.submit_all([Request("count", n, {"queue": queue}) for n in range(1_000)])
        until(lambda: len(ran) >= 1_000, "the last one")
    # A worker that has stopped has told how all of them ended.
    assert sorted(ran) == list(range(1_000))
    assert [job for job in turnwise.jobs(state=["waiting", "scheduled", "running", "stuck"], queue=queue) if job.task == "count"] == []


def test_a_job_that_a_task_submits_belongs_to_the_same_trace(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    @task("parent")
    def parent(ctx: Ctx, args: None) -> str:
        return turnwise.submit("child-of-it", queue=queue, delay="1h").id

    with working(workers_url, parent, queues=[queue]):
        id = turnwise.submit("parent", queue=queue, traceparent=TRACE).id
        assert turnwise.job(turnwise.result(id, PATIENCE)).traceparent == TRACE


def test_a_worker_that_stops_lets_tasks_end_and_gives_back_what_has_not_begun(
    workers_url: str, turnwise: Turnwise, queue: str, request: pytest.FixtureRequest
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @task("slow")
    def slow(ctx: Ctx, args: int) -> str:
        begun.set()
        go_on.wait(PATIENCE)
        return "ended well"

    with working(workers_url, slow, queues=[queue], slots=1, buffer=2, stop_timeout=PATIENCE) as worker:
        first, *others = [one.id for one in turnwise.submit_all([Request("slow", n, {"queue": queue}) for n in range(3)])]
        assert begun.wait(PATIENCE)
        if "in memory" in request.node.name:
            # A real server gives no more than it expects to begin soon.
            until(lambda: all(turnwise.job(id).state in ("scheduled", "running") for id in others), "the others in its buffer")
        worker.stop()
        until(lambda: all(turnwise.job(id).state == "waiting" for id in others), "their way back")
        go_on.set()
    assert turnwise.result(first, PATIENCE) == "ended well"
    assert [(turnwise.job(id).state, turnwise.job(id).attempt) for id in others] == [("waiting", 0)] * 2


def test_a_task_that_takes_too_long_to_stop_is_interrupted_and_has_spent_no_attempt(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    for one in (tasks.wait_sync, tasks.wait_async, tasks.never_ends):
        with working(workers_url, one, queues=[queue], stop_timeout=0.1):
            id = turnwise.submit(one, None, queue=queue).id
            until(lambda: any(line.text == "begun" for line in turnwise.log(id)), "its begin")
        job = turnwise.job(id)
        assert (job.state, job.attempt) == ("waiting", 0), one
        turnwise.cancel(id)


def test_an_async_program_serves_beside_its_own_work(workers_url: str, turnwise: Turnwise, queue: str) -> None:
    loops = []

    @task("where")
    async def where(ctx: AsyncCtx, args: None) -> None:
        loops.append(asyncio.get_running_loop())

    async def program() -> None:
        async with Worker(workers_url, tasks=[where], queues=[queue]):
            id = turnwise.submit("where", queue=queue).id
            job = await asyncio.to_thread(turnwise.wait, id, PATIENCE)
            assert job.state == "success"
            assert loops == [asyncio.get_running_loop()], "async tasks run in the loop of the program"

    asyncio.run(program())

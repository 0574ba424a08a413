"""Parts that need no server: durations, outcomes, tasks, and running them inline."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from turnwise import AsyncCtx, Cancelled, Ctx, Fail, JobLogHandler, Next, Retry, Snooze, Worker, _span, outcome, task
from turnwise._notes import MAX_WAITING, Notes
from turnwise.testing import run, run_async_task


@pytest.mark.parametrize(
    ("given", "said"),
    [("10m", "10m"), ("1h 30m", "90m"), (0.25, "250ms"), (90, "90s"), (timedelta(days=2), "2d"), (0, "0s"), (0.0000015, "2us"), (1.5, "1500ms")],
)
def test_durations_are_written_exactly(given: _span.Span, said: str) -> None:
    assert _span.text(given) == said


@pytest.mark.parametrize("given", ["ten", "", "10", "1.5s", -1, float("inf"), float("nan")])
def test_what_is_no_duration_is_refused(given: _span.Span) -> None:
    with pytest.raises(ValueError, match="no duration"):
        _span.text(given)


@dataclass
class Order:
    id: int


@task("ship", retry="none", timeout=timedelta(minutes=5), secret=["/card"], on_exhausted="apologise")
def ship(ctx: Ctx, args: Order) -> Any:
    if args.id == 0:
        raise Fail("there is no order 0")
    if args.id == 1:
        return Next(ship, Order(2), {"delay": "1h"})
    if args.id == 3:
        raise Snooze(timedelta(minutes=1))
    if args.id == 4:
        raise Retry
    if args.id == 5:
        raise Cancelled
    weight = ctx.step("weigh", lambda: 7)
    ctx.progress(1, 2)
    logging.getLogger("ship").warning("%d kg", weight)
    return {"weight": weight}


def test_a_task_run_inline_tells_how_it_ended_and_what_it_said() -> None:
    logger = logging.getLogger("ship")
    handler = JobLogHandler()
    logger.addHandler(handler)
    try:
        ran = run(ship, {"id": 7})
    finally:
        logger.removeHandler(handler)
    assert (ran.outcome, ran.result, ran.steps, ran.progress, ran.log) == ("done", {"weight": 7}, {"weigh": 7}, (1, 2, ""), [("warn", "7 kg")])
    assert run(ship, {"id": 7}, steps={"weigh": 9}).result == {"weight": 9}
    assert run(ship, Order(0)).error == "there is no order 0"
    assert run(ship, Order(1)).next == {"task": "ship", "args": {"id": 2}, "in": "1h"}
    assert (run(ship, Order(3)).outcome, run(ship, Order(3)).snooze) == ("snooze", "1m")
    assert run(ship, Order(4)).outcome == "error"
    assert run(ship, Order(5)).outcome == "cancelled"
    wrong = run(ship, {"no": 1})
    assert wrong.outcome == "error" and "TypeError" in (wrong.error or ""), "arguments of another form are an error of the job"


def test_a_task_can_still_be_called_as_a_function() -> None:
    @task("plain")
    def plain(ctx: Ctx, args: int) -> int:
        return args + 1

    assert plain(None, 1) == 2
    assert ship.facts == {"retry": "none", "timeout": "5m", "on_exhausted": "apologise", "secret": ["/card"]}
    assert ship.job(Order(1), group="acme").wire() == {"task": "ship", "args": {"id": 1}, "group": "acme"}


def test_a_long_sleep_goes_on_when_its_time_has_come() -> None:
    @task("sleepy")
    def sleepy(ctx: Ctx, args: None) -> str:
        ctx.sleep("1h")
        return "woken"

    first = run(sleepy, now=lambda: 1_000_000.0)
    assert (first.outcome, first.snooze) == ("snooze", "1h")
    again = run(sleepy, steps=first.steps, now=lambda: 1_000_060.0)
    assert (again.outcome, again.snooze) == ("snooze", "59m")
    assert run(sleepy, steps=first.steps, now=lambda: 1_003_600.0).result == "woken"


def test_a_task_that_should_stop_sees_why() -> None:
    @task("stops")
    def stops(ctx: Ctx, args: None) -> None:
        assert ctx.cancelled and ctx.wait(0)
        ctx.check()

    assert run(stops, stop="cancelled").outcome == "cancelled"
    assert run(stops, stop="timed_out").outcome == "timed_out"
    assert run(stops, stop="stopping").outcome == "interrupted"

    @task("stops-async")
    async def stops_async(ctx: AsyncCtx, args: None) -> None:
        await asyncio.sleep(60)

    assert run(stops_async, stop="cancelled").outcome == "cancelled"
    assert asyncio.run(run_async_task(stops_async, stop="stopping")).outcome == "interrupted"


def test_an_error_is_told_with_its_causes() -> None:
    @task("breaks")
    def breaks(ctx: Ctx, args: None) -> None:
        try:
            raise OSError("the tap is closed")
        except OSError as error:
            raise RuntimeError("no water") from error

    ran = run(breaks)
    assert (ran.outcome, ran.error) == ("error", "RuntimeError: no water; caused by OSError: the tap is closed")
    assert "test_parts.py" in ran.log[0][1]


@pytest.mark.parametrize("value", [float("nan"), {"a set"}, "\ud800", object(), {1: {2: b"bytes"}}])
def test_a_result_that_is_no_json_fails_its_job(value: object) -> None:
    said = json.loads(outcome.returned(value))
    assert said["outcome"] == "fail" and "cannot be stored" in said["error"]


def test_hostile_texts_are_stored_as_what_can_be() -> None:
    @task("hostile")
    def hostile(ctx: Ctx, args: None) -> None:
        ctx.log("a\0b\ud800" + "é" * 5_000)
        ctx.progress(1, 0, "\ud800")
        raise RuntimeError("\0\ud800" * 20_000)

    ran = run(hostile)
    assert ran.log[0][1].startswith("a\N{REPLACEMENT CHARACTER}b?é") and len(ran.log[0][1].encode()) <= 4096
    assert ran.error is not None and len(ran.error.encode()) <= 16 * 1024 and "\0" not in ran.error


def test_mistakes_are_named_when_the_program_starts() -> None:
    with pytest.raises(TypeError, match="top of a module"):

        @task("inner", stoppable=True)
        def inner(ctx: Ctx, args: None) -> None: ...

    with pytest.raises(TypeError, match="where it awaits"):

        @task("stoppable-async", stoppable=True)
        async def later(ctx: AsyncCtx, args: None) -> None: ...

    with pytest.raises(TypeError, match="two parameters"):
        task("one")(lambda ctx: None)  # type: ignore[arg-type, misc]

    @task("ship")
    def other(ctx: Ctx, args: None) -> None: ...

    with pytest.raises(ValueError, match="two tasks have the name 'ship'"):
        Worker("http://127.0.0.1:1", tasks=[ship, other])
    with pytest.raises(TypeError, match=r"write \['mail'\]"):
        Worker("http://127.0.0.1:1", tasks=[ship], queues="mail")


def test_a_note_that_is_sent_again_has_the_same_lines_with_the_same_numbers() -> None:
    notes = Notes()
    notes.line("info", "one")
    first = notes.take()
    notes.line("info", "two")
    assert notes.take() is None, "one is under way"
    assert notes.again() == first
    notes.answered("applied")
    said = json.loads("{" + (notes.take() or "") + "}")
    assert [(line["number"], line["text"]) for line in said["lines"]] == [(1, "two")]
    notes.answered("applied")
    assert not notes.waiting()


def test_lines_beyond_the_bound_are_dropped_and_the_log_says_how_many() -> None:
    notes = Notes()
    for number in range(MAX_WAITING + 10):
        notes.line("info", str(number))
    said = json.loads("{" + (notes.take() or "") + "}")
    assert said["lines"][0]["text"].startswith("10 lines")
    assert said["lines"][1]["text"] == "10"


def test_a_lost_job_lets_no_step_wait() -> None:
    notes = Notes()
    heard: list[str] = []
    notes.step("one", "1", heard.append)
    notes.take()
    notes.step("two", "2", heard.append)
    notes.drop("gone")
    assert heard == ["gone", "gone"]

"""For tests: run a task inline with :func:`run`, or a worker against a :class:`Server` in memory."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from . import _ids
from ._running import run_async, run_here
from ._testserver import Fault, Server
from .job import written
from .task import Task

__all__ = ["Fault", "Ran", "Server", "run", "run_async_task"]

A = TypeVar("A")
R = TypeVar("R")


@dataclass
class Ran:
    """What became of a run."""

    #: ``done``, ``error``, ``fail``, ``snooze``, ``next``, ``cancelled``, ``timed_out`` or ``interrupted``.
    outcome: str
    result: Any = None
    error: str | None = None
    #: After how long it goes on, of a snooze or a long sleep.
    snooze: str | None = None
    #: What it goes on as, of a ``Next``.
    next: dict[str, Any] | None = None
    #: The lines of the log with their levels.
    log: list[tuple[str, str]] = field(default_factory=list)
    #: The latest report: done, total, text.
    progress: tuple[int, int, str] | None = None
    #: The results of all finished steps, for the next run.
    steps: dict[str, Any] = field(default_factory=dict)


class _Inline:
    """The surroundings of a run that reports to a test."""

    def __init__(self, ran: Ran, stop: str | None, now: Callable[[], float]) -> None:
        self._ran, self._reason, self._now = ran, stop, now

    def reason(self) -> str | None:
        return self._reason

    def wait(self, seconds: float | None) -> bool:
        if self._reason is None and seconds is None:
            raise AssertionError("the task waits until it is stopped, and nothing will stop it; give stop=…")
        return self._reason is not None or threading.Event().wait(seconds)

    async def until(self) -> None:
        if self._reason is None:
            raise AssertionError("the task waits until it is stopped, and nothing will stop it; give stop=…")

    def line(self, level: str, text: str) -> None:
        self._ran.log.append((level, text))

    def progress(self, done: int, total: int, text: str) -> None:
        self._ran.progress = (done, total, text)

    def step(self, name: str, result: str, answered: Callable[[str], None]) -> None:
        self._ran.steps[name] = json.loads(result)
        answered("applied")

    def now(self) -> float:
        return self._now()


def _begun(
    task: Task[A, R], args: Any, attempt: int, steps: dict[str, Any] | None, stop: str | None, group: str, queue: str, now: Callable[[], float]
) -> tuple[Ran, _Inline, dict[str, Any]]:
    ran = Ran("", steps=dict(steps or {}))
    said = {
        "id": _ids.new(), "fence": attempt, "task": task.name, "queue": queue, "group": group, "args": json.loads(written(args)),
        "attempt": attempt, "steps": dict(ran.steps),
    }  # fmt: skip
    return ran, _Inline(ran, stop, now), said


def _ended(ran: Ran, how: str) -> Ran:
    said = json.loads(how)
    ran.outcome, ran.result, ran.error = said["outcome"], said.get("result"), said.get("error")
    ran.snooze, ran.next = said.get("for"), said.get("job")
    return ran


def run(
    task: Task[A, R], args: Any = None, *, attempt: int = 1, steps: dict[str, Any] | None = None, stop: str | None = None,
    group: str = "default", queue: str = "default", now: Callable[[], float] = time.time,
) -> Ran:  # fmt: skip
    """Runs a task once, here, without a server: its arguments pass through JSON, and how it ends is what a server would be told.

    `steps` are those that earlier runs have finished, `stop` is why it is to stop from the beginning (``"cancelled"``), `now` the time for
    ``ctx.sleep``. In async tests: ``await run_async_task(…)``.
    """
    if task.is_async:
        return asyncio.run(run_async_task(cast("Task[A, Awaitable[Any]]", task), args, attempt=attempt, steps=steps, stop=stop, group=group, queue=queue, now=now))
    ran, inline, said = _begun(task, args, attempt, steps, stop, group, queue, now)
    return _ended(ran, run_here(task, said, inline))


async def run_async_task(
    task: Task[A, Awaitable[Any]], args: Any = None, *, attempt: int = 1, steps: dict[str, Any] | None = None, stop: str | None = None,
    group: str = "default", queue: str = "default", now: Callable[[], float] = time.time,
) -> Ran:  # fmt: skip
    """As :func:`run`, in a loop that runs already."""
    ran, inline, said = _begun(task, args, attempt, steps, stop, group, queue, now)
    running = asyncio.ensure_future(run_async(task, said, inline))
    if stop is not None:
        # After its first step: what asyncio cancels before that never begins.
        asyncio.get_running_loop().call_soon(running.cancel)
    return _ended(ran, await running)

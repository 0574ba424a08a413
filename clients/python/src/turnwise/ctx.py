"""What a task sees of its run: which job it is, whether it should stop, and how it reports."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading

from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar, cast, overload

from . import _span
from ._span import Span
from .job import moment, written
from .outcome import MAX_RESULT_BYTES, Cancelled, Interrupted, Suspended, clean

T = TypeVar("T")

#: A sleep up to this long keeps its slot; a longer one gives it back.
_MOMENT = 1.0
#: Longest line of a log, and text of a report, in bytes.
MAX_LINE_BYTES = 4 * 1024
MAX_STEP_NAME_BYTES = 200

LEVELS = ("debug", "info", "warn", "error")


class Surroundings(Protocol):
    """Where the run reports to: its worker, the process that started it, or a test."""

    def reason(self) -> str | None:
        """Why the run is to stop; ``None``: it is not."""

    def wait(self, seconds: float | None) -> bool:
        """Blocks until the run is to stop, so long at most; whether it is to."""

    async def until(self) -> None:
        """Waits until the run is to stop."""

    def line(self, level: str, text: str) -> None: ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def step(self, name: str, result: str, answered: Callable[[str], None]) -> None:
        """Stores a finished step. What came of it is told from any thread: ``applied``, or why it is not stored."""

    def now(self) -> float:
        """The server's time, in seconds since 1970."""


class Base:
    """What both kinds of context have."""

    def __init__(self, said: dict[str, Any], surroundings: Surroundings) -> None:
        self._said = said
        self._surroundings = surroundings
        self._steps: dict[str, Any] = said.get("steps") or {}
        self._sleeps = 0

    @property
    def id(self) -> str:
        """The job's id: the same in every run, and after it went on as another task."""
        return cast(str, self._said["id"])

    @property
    def fence(self) -> int:
        """Grows each time that the job is given out. Hand it to outside systems that can refuse an older one."""
        return cast(int, self._said["fence"])

    @property
    def attempt(self) -> int:
        """The number of this run, from 1."""
        return cast(int, self._said["attempt"])

    @property
    def task(self) -> str:
        return cast(str, self._said["task"])

    @property
    def queue(self) -> str:
        return cast(str, self._said["queue"])

    @property
    def group(self) -> str:
        return cast(str, self._said["group"])

    @property
    def traceparent(self) -> str | None:
        """The trace of the job's submitter (W3C). Jobs that are submitted by the task belong to it too."""
        return self._said.get("traceparent")

    @property
    def cancelled(self) -> bool:
        """Whether the task should stop; :attr:`reason` says why."""
        return self._surroundings.reason() is not None

    @property
    def reason(self) -> str | None:
        """Why the task should stop: ``cancelled``, ``timed_out``, ``gone`` (the job is another worker's now), ``doubt`` (it may soon be, as no server
        answers) or ``stopping`` (the worker ends)."""
        return self._surroundings.reason()

    def check(self) -> None:
        """Ends the run here if it should stop. For loops: ``for page in pages: ctx.check(); …``"""
        reason = self._surroundings.reason()
        if reason is not None:
            raise Cancelled() if reason == "cancelled" else Interrupted(reason)

    def log(self, text: str, level: str = "info") -> None:
        """A line in the job's log, which people read with ``turnwise logs ID``. Cheap: written in batches."""
        if level not in LEVELS:
            raise ValueError(f"{level!r} is not one of {', '.join(LEVELS)}")
        self._surroundings.line(level, clean(text, MAX_LINE_BYTES))

    def progress(self, done: int, total: int = 0, text: str = "") -> None:
        """Reports how far the run has come; `total` 0 where it is not known. Cheap: the latest report is written a few times a second."""
        if done < 0 or total < 0:
            raise ValueError("progress counts from 0")
        self._surroundings.progress(done, total, clean(text, MAX_LINE_BYTES))

    def _named(self, name: str) -> str:
        if not name or len(name.encode()) > MAX_STEP_NAME_BYTES or "\0" in name:
            raise ValueError(f"a step needs a name of at most {MAX_STEP_NAME_BYTES} bytes, without NUL")
        return name

    def _encoded(self, name: str, value: Any) -> str:
        result = written(value)
        if len(result.encode()) > MAX_RESULT_BYTES:
            raise ValueError(f"the result of step {name!r} is longer than {MAX_RESULT_BYTES} bytes")
        return result

    def _kept(self, name: str, result: str, answer: str) -> Any:
        """What the next run would get, so that this one sees the same."""
        if answer == "applied":
            self._steps[name] = kept = json.loads(result)
            return kept
        if answer in ("stale", "gone"):
            # The job is another worker's: nothing more of this run counts, so it goes no further.
            raise Interrupted("gone")
        raise ValueError(f"the result of step {name!r} cannot be stored: {answer}")

    def _sleep_name(self) -> str:
        self._sleeps += 1
        return f"sleep {self._sleeps}"

    def _wake(self, span: Span) -> str:
        wake = datetime.fromtimestamp(self._surroundings.now() + _span.seconds(span), timezone.utc)
        return written(wake.isoformat())

    def _left(self, wake: Any) -> float:
        return moment(str(wake)).timestamp() - self._surroundings.now()


class Ctx(Base):
    """The context of a task that is not async."""

    def wait(self, seconds: float | None = None) -> bool:
        """Blocks until the task should stop, for so many seconds at most; whether it should."""
        return self._surroundings.wait(seconds)

    def step(self, name: str, run: Callable[[], T]) -> T:
        """Runs a step once and keeps its result: a retry, or another worker, gets the result and does not run it again.

        The result is stored when this returns. Names are unique within the task; what is returned is the result as it comes back from JSON.
        At least once: a worker that dies between the end of the step and its write runs it again. A step that fails keeps nothing.
        """
        if self._named(name) not in self._steps:
            self._store(name, self._encoded(name, run()))
        return cast(T, self._steps[name])

    def sleep(self, span: Span) -> None:
        """Sleeps. Longer than a second, the run ends here and its slot is free for others; when the time has come the task starts from its
        beginning, finished steps are not run again, and this returns at once."""
        if _span.seconds(span) <= _MOMENT:
            return self._doze(_span.seconds(span))
        name = self._sleep_name()
        if name not in self._steps:
            self._store(name, self._wake(span))
        left = self._left(self._steps[name])
        if left > _MOMENT:
            raise Suspended(left)
        self._doze(left)

    def _doze(self, seconds: float) -> None:
        if seconds > 0 and self._surroundings.wait(seconds):
            self.check()

    def _store(self, name: str, result: str) -> None:
        answered, answer = threading.Event(), [""]

        def hear(said: str) -> None:
            answer[0] = said
            answered.set()

        self._surroundings.step(name, result, hear)
        answered.wait()
        self._kept(name, result, answer[0])


class AsyncCtx(Base):
    """The context of an async task. When the task should stop, it is cancelled as asyncio does it, where it awaits."""

    async def until_cancelled(self) -> None:
        """Waits until the task should stop. Only of use in a part of the task that asyncio does not cancel with it."""
        await self._surroundings.until()

    @overload
    async def step(self, name: str, run: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def step(self, name: str, run: Callable[[], T]) -> T: ...
    async def step(self, name: str, run: Callable[[], Any]) -> Any:
        """As :meth:`Ctx.step`: ``await ctx.step("fetch", lambda: fetch(7))``, where ``fetch`` may be async."""
        if self._named(name) not in self._steps:
            made = run()
            await self._store(name, self._encoded(name, await made if inspect.isawaitable(made) else made))
        return self._steps[name]

    async def sleep(self, span: Span) -> None:
        """As :meth:`Ctx.sleep`."""
        if _span.seconds(span) <= _MOMENT:
            return await asyncio.sleep(_span.seconds(span))
        name = self._sleep_name()
        if name not in self._steps:
            await self._store(name, self._wake(span))
        left = self._left(self._steps[name])
        if left > _MOMENT:
            raise Suspended(left)
        await asyncio.sleep(max(0.0, left))

    async def _store(self, name: str, result: str) -> None:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str] = loop.create_future()

        def settle(said: str) -> None:
            if not answered.done():
                answered.set_result(said)

        def hear(said: str) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, said)

        self._surroundings.step(name, result, hear)
        self._kept(name, result, await answered)

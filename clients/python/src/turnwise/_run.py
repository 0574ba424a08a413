"""A job in this worker's hands."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ._notes import Notes

if TYPE_CHECKING:
    from ._child import Child
    from .task import Task


class Home(Protocol):
    """What a run needs of its worker. Called from any thread."""

    offset: float

    def noted(self, run: Run, urgent: bool) -> None:
        """The run has notes that wait to be sent."""


class Run:
    """One run of a job, from the answer that brought it to the answer to its end.

    The worker's thread changes it; the task's thread only reads why it is to stop, and writes notes.
    """

    __slots__ = (
        "id", "fence", "key", "fragment", "said", "task", "home", "limited", "timeout", "began", "executing", "ended", "end", "stop_reason",
        "told", "notes", "noted", "timer", "child", "_flag", "_event", "_loop", "_running",
    )  # fmt: skip

    def __init__(self, said: dict[str, Any], task: Task[Any, Any], home: Home) -> None:
        self.id: str = said["id"]
        self.fence: int = said["fence"]
        self.key = (self.id, self.fence)
        #: How it is named in every request.
        self.fragment = f'{{"id":"{self.id}","fence":{self.fence}'
        self.said = said
        self.task = task
        self.home = home
        self.limited: bool = said.get("limited", False)
        timeout = said.get("timeout_ms")
        self.timeout: float | None = None if timeout is None else timeout / 1_000
        #: When its code began, by the monotonic clock.
        self.began: float | None = None
        #: Whether its code runs.
        self.executing = False
        #: Whether how it ended is decided, or does not matter any more.
        self.ended = False
        #: How it ended, as it is told to the server.
        self.end = ""
        #: Whether that is on its way.
        self.told = False
        self.stop_reason: str | None = None
        self.notes: Notes | None = None
        #: Whether the worker knows that there are notes.
        self.noted = False
        self.timer: asyncio.TimerHandle | None = None
        #: The process that it runs in, if that is one of its own.
        self.child: Child | None = None
        self._flag: threading.Event | None = None
        self._event: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[None] | None = None

    # Called by the worker's thread.

    def stop(self, reason: str) -> None:
        """Tells the task that it should stop; the first reason stands, unless the job is gone."""
        if self.stop_reason is None or reason == "gone":
            self.stop_reason = reason
        if self._flag is not None:
            self._flag.set()
        child = self.child
        if child is not None:
            child.stop(reason)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._event is not None:
            self._event.set()
        if self._running is not None:
            self._running.cancel()

    # Called by the task's thread: what its context asks.

    def reason(self) -> str | None:
        return self.stop_reason

    def wait(self, seconds: float | None) -> bool:
        if self._flag is None:
            self._flag = threading.Event()
        # The reason is written before the flag is looked for, so one of the two is seen.
        return self.stop_reason is not None or self._flag.wait(seconds)

    async def until(self) -> None:
        if self._event is None:
            self._event = asyncio.Event()
        if self.stop_reason is None:
            await self._event.wait()

    def now(self) -> float:
        return time.time() + self.home.offset

    def line(self, level: str, text: str) -> None:
        self._noting().line(level, text)
        if not self.noted:
            self.home.noted(self, False)

    def progress(self, done: int, total: int, text: str) -> None:
        self._noting().progress(done, total, text)
        if not self.noted:
            self.home.noted(self, False)

    def step(self, name: str, result: str, answered: Callable[[str], None]) -> None:
        self._noting().step(name, result, answered)
        self.home.noted(self, True)

    def _noting(self) -> Notes:
        notes = self.notes
        if notes is None:
            # Made by the task's own thread alone, but for code that it has started elsewhere: those threads share the first.
            with _first:
                notes = self.notes = self.notes or Notes()
        return notes

    def begin_in(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def runs_as(self, running: asyncio.Task[None]) -> None:
        """The asyncio task in which it runs."""
        self._running = running


_first = threading.Lock()

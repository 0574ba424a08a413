"""A worker: a process that runs jobs."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _span
from ._engine import Engine, Settings
from ._server import Server
from ._span import Span
from .task import Task

if TYPE_CHECKING:
    from typing_extensions import Self


class Worker:
    """Runs jobs of these tasks: ``Worker(tasks=[send]).run()``.

    - `slots`: jobs that run at a time; `buffer`: jobs that it holds beyond them, so that short ones follow one another at once.
    - `queues`: those that it serves; all unless given.
    - `lease`: for how long it counts as alive when nothing is heard of it (5 s to 10 min). Then its jobs are given to others.
    - `name`: unique among living workers; made of the machine's name and a number unless given.
    - `stop_timeout`: how long tasks that run may go on when the worker is asked to stop. Then they are told to stop, and their jobs go back.

    The server and the token are named as for :class:`~turnwise.Turnwise`. Async tasks run in the loop that calls :meth:`serve`, others in
    threads, stoppable ones in processes. It beats from a process of its own: a task that blocks this one does not stop it.
    """

    def __init__(
        self, server: str | None = None, token: str | None = None, *, tasks: Iterable[Task[Any, Any]], slots: int = 8, buffer: int = 0,
        queues: Iterable[str] | None = None, lease: Span = 30, name: str | None = None, stop_timeout: Span = 30, ca: str | None = None,
        plain_http: bool = False,
    ) -> None:  # fmt: skip
        known: dict[str, Task[Any, Any]] = {}
        for task in tasks:
            if known.setdefault(task.name, task) is not task:
                raise ValueError(f"two tasks have the name {task.name!r}")
        if not known:
            raise ValueError("a worker needs a task; name them as tasks=[…]")
        if not 1 <= slots <= 10_000 or buffer < 0:
            raise ValueError("a worker has 1 to 10,000 slots, and a buffer of 0 or more")
        if isinstance(queues, str):
            raise TypeError(f"queues is a list of names; write [{queues!r}]")
        address = Server.named(server, token, ca, plain_http)
        named = None if queues is None else tuple(queues)
        self._settings = Settings(address, known, slots, buffer, named, _span.seconds(lease), name, _span.seconds(stop_timeout))
        self._engine: Engine | None = None
        self._serving: asyncio.Task[None] | None = None
        self._began = threading.Event()
        self._stops = 0

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT (Ctrl-C), and stops gracefully: no more jobs are taken, those that run may end, others go back.

        A second signal tells the tasks to stop at once. Raises what does not go away, such as a token that is not allowed to work.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        before: list[tuple[int, Any]] = []
        if threading.current_thread() is threading.main_thread():
            for kind in (signal.SIGTERM, signal.SIGINT):
                # Not by the loop: a task that blocks it must not keep the worker from stopping.
                before.append((kind, signal.signal(kind, lambda *_: self.stop())))
        try:
            await self.serve()
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    async def serve(self) -> None:
        """Runs in the caller's loop, which keeps its signals, until :meth:`stop` is called. If this is cancelled, the worker stops gracefully first."""
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise RuntimeError('the program of the worker was started once more, for a stoppable task: put worker.run() below if __name__ == "__main__":')
        if self._engine is not None:
            raise RuntimeError("a worker serves once; make another one")
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self._engine = engine = Engine(self._settings, loop)

        def end() -> None:
            if not over.done():
                over.set_result(None)

        engine.start(lambda: _in(loop, end))
        self._began.set()
        for _ in range(self._stops):
            engine.stop()
        cancelled: asyncio.CancelledError | None = None
        while not over.done():
            try:
                await asyncio.shield(over)
            except asyncio.CancelledError as error:
                cancelled = error
                engine.stop()
        failure = engine.error()
        if failure is not None:
            raise failure
        if cancelled is not None:
            raise cancelled

    def stop(self) -> None:
        """Asks it to stop; called again, tasks are told to stop at once. From any thread, or a handler of signals."""
        self._stops += 1
        if self._engine is not None:
            self._engine.stop()

    def wait_until_registered(self, timeout: float | None = None) -> bool:
        """Blocks until the server knows it. For programs that start it in a thread of their own; whether it does after so many seconds."""
        return self._began.wait(timeout) and self._engine is not None and self._engine.registered.wait(timeout)

    async def __aenter__(self) -> Self:
        """Serves beside the caller's own code: ``async with Worker(tasks=[send]): …``, as in the lifespan of a web application."""
        self._serving = asyncio.get_running_loop().create_task(self.serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        assert self._serving is not None
        await self._serving


def _in(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(do)
    except RuntimeError:
        if sys.is_finalizing():
            return

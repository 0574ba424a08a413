"""Processes for tasks that can be stopped: each runs one job at a time, and is killed if the job is to stop and does not."""

from __future__ import annotations

import ctypes
import functools
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from . import _signals, outcome
from ._running import failed, run_here, stopped
from .joblog import JobLogHandler, attached

if TYPE_CHECKING:
    from ._run import Run
    from .task import Task

# A forked process would have copies of this one's locks, held by threads that it does not have.
_spawn = multiprocessing.get_context("spawn")


class Child:
    """A process, from the side of the worker. One thread at a time runs a job in it; another one may stop it."""

    def __init__(self) -> None:
        self._pipe, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=_serve, args=(theirs, os.getpid(), attached()), name="turnwise-task", daemon=True)
        with _signals.blocked():
            self._process.start()
        theirs.close()
        self._sending = threading.Lock()
        self._killed = False
        self._runs: Run | None = None
        self._killing = threading.Lock()

    def run(self, run: Run) -> str:
        """Runs the job there; how it ended."""
        with self._killing:
            self._runs = run
        try:
            return self._run(run)
        finally:
            with self._killing:
                self._runs = None

    def _run(self, run: Run) -> str:
        try:
            if run.stop_reason is not None:
                return stopped(run.stop_reason)
            self._send(("run", run.task.__module__, run.task.__qualname__, run.said, run.home.offset))
            if run.stop_reason is not None:
                self.stop(run.stop_reason)
            while True:
                kind, *said = self._pipe.recv()
                if kind == "ended":
                    return str(said[0])
                if kind == "line":
                    run.line(*said)
                elif kind == "progress":
                    run.progress(*said)
                else:
                    number, name, result = said
                    run.step(name, result, functools.partial(self._answer, number))
        except (EOFError, OSError):
            self._process.join()
            self._killed, known = True, self._killed
            if known and run.stop_reason is not None:
                return stopped(run.stop_reason)
            code = self._process.exitcode or 0
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            return outcome.raised(outcome.Retry(f"the process of the task {how}"))

    @property
    def usable(self) -> bool:
        return not self._killed and self._process.is_alive()

    def stop(self, reason: str) -> None:
        # The worker's thread does not wait for a process that does not read: the thread that sends to it meanwhile repeats the stop afterwards,
        # and in the end it is killed.
        if self._sending.acquire(blocking=False):
            try:
                self._pipe.send(("stop", reason))
            except (OSError, ValueError):
                pass
            finally:
                self._sending.release()

    def kill(self, run: Run) -> None:
        """Kills it if it still runs this job, and not the next one."""
        with self._killing:
            if self._runs is run:
                self._killed = True
                self._process.kill()

    def close(self) -> None:
        """Lets it end."""
        self._pipe.close()
        self._process.join(2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _answer(self, number: int, answer: str) -> None:
        self._send(("step", number, answer))

    def _send(self, said: tuple[Any, ...]) -> None:
        try:
            with self._sending:
                self._pipe.send(said)
        except (OSError, ValueError):
            pass  # it is gone; who runs a job in it hears so


class Children:
    """The processes that run no job at present, to be used again: as many as tasks have run at a time."""

    def __init__(self) -> None:
        self._idle: list[Child] = []
        self._lock = threading.Lock()

    def run(self, run: Run) -> str:
        with self._lock:
            child = next((one for one in iter(lambda: self._idle.pop() if self._idle else None, None) if one.usable), None)
        try:
            child = child or Child()
        except OSError as error:
            return outcome.raised(error)
        run.child = child
        try:
            return child.run(run)
        finally:
            run.child = None
            if child.usable:
                with self._lock:
                    self._idle.append(child)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()


def _serve(pipe: Connection[Any, Any] | Any, parent: int, handlers: list[tuple[str, int, int]]) -> None:
    """What the process does: it runs jobs in its main thread, and ends with the worker."""
    _end_with(parent)
    _signals.ignored()
    # A task may start processes of its own.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    for name, level, of_handler in handlers:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, JobLogHandler) for handler in logger.handlers):
            logger.addHandler(JobLogHandler(of_handler))
            logger.setLevel(level)
    inside = _Inside(pipe)
    threading.Thread(target=inside.listen, daemon=True).start()
    while True:
        inside.run(*inside.jobs.get())


def _end_with(parent: int) -> None:
    """The end of the pipe says that the worker is gone, but a task that keeps Python's lock hears nothing: on Linux the kernel kills it."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        except (OSError, AttributeError):
            return
        if os.getppid() != parent:
            os._exit(1)


class _Inside:
    """The surroundings of a run in this process: what it says goes to the worker."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._asked: dict[int, Callable[[str], None]] = {}
        self._stop = threading.Event()
        self._reason: str | None = None
        self._offset = 0.0
        self.jobs: SimpleQueue[tuple[str, str, dict[str, Any]]] = SimpleQueue()

    def listen(self) -> None:
        try:
            while True:
                kind, *said = self._pipe.recv()
                if kind == "run":
                    module, name, job, self._offset = said
                    self._reason = None
                    self._stop.clear()
                    self.jobs.put((module, name, job))
                elif kind == "stop":
                    self._reason = said[0]
                    self._stop.set()
                else:
                    number, answer = said
                    self._asked.pop(number)(answer)
        except (EOFError, OSError):
            os._exit(1)

    def run(self, module: str, name: str, job: dict[str, Any]) -> None:
        try:
            task = _found(module, name)
        except Exception as error:
            self._send("ended", failed(error, self))
        else:
            self._send("ended", run_here(task, job, self))

    def reason(self) -> str | None:
        return self._reason

    def wait(self, seconds: float | None) -> bool:
        return self._stop.wait(seconds)

    async def until(self) -> None:
        raise AssertionError("a task in a process of its own is not async")

    def line(self, level: str, text: str) -> None:
        self._send("line", level, text)

    def progress(self, done: int, total: int, text: str) -> None:
        self._send("progress", done, total, text)

    def step(self, name: str, result: str, answered: Callable[[str], None]) -> None:
        number = id(answered)
        self._asked[number] = answered
        self._send("step", number, name, result)

    def now(self) -> float:
        return time.time() + self._offset

    def _send(self, *said: Any) -> None:
        with self._sending:
            self._pipe.send(said)


def _found(module: str, name: str) -> Task[Any, Any]:
    # The program that was started is `__main__` there, and has another name here, so that it does not start once more.
    holder: Any = sys.modules["__mp_main__"] if module == "__main__" else __import__(module, fromlist=["_"])
    for part in name.split("."):
        holder = getattr(holder, part)
    return holder  # type: ignore[no-any-return]

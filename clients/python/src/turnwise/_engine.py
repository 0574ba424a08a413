"""The worker's own thread: registers, takes jobs, has them run, and tells how they ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import httpx

from . import _version, outcome
from ._backoff import Backoff
from ._beats import Beats
from ._child import Children
from ._run import Run
from ._running import run_async, run_here, stopped
from ._server import Server, ahead
from ._threads import Threads
from .errors import Busy, Conflict, Forbidden, Invalid, NotFound, ProblemError, ServerError, TurnwiseError, Unauthorized, problem
from .task import Task

log = logging.getLogger("turnwise")

#: How long a take waits at the server for something to do.
_TAKE_WAIT = 25.0
_THREAD = "turnwise-worker"
#: Most jobs of one take, ends of one settle and runs of one note.
_BATCH = 1_000
#: Most bytes of ends or notes in one request, unless a single one is larger; the server takes 32 MiB.
_BATCH_BYTES = 4 * 1024 * 1024
#: While all slots are busy, so long for one to become free before the server is asked for stops alone.
_FULL = 0.05
#: Lines and progress are sent this often; steps, and what is left at the end of a run, at once.
_NOTE_EVERY = 0.25
#: How long a task has to stop where the job is no longer its own, or its time is over.
_SHORT_GRACE = 2.0
#: The next take after one that brought nothing follows so much later at the earliest.
_NOTHING_NEW = 0.25
#: How often the worker looks whether it is in touch with the server.
_WATCH = 0.25


class Lost(TurnwiseError):
    """This life of the worker is over: its jobs are given to others."""


@dataclass(frozen=True)
class Settings:
    server: Server
    tasks: dict[str, Task[Any, Any]]
    slots: int
    buffer: int
    queues: tuple[str, ...] | None
    lease: float
    name: str | None
    stop_timeout: float


class Engine:
    """One worker, through all its lives. Everything but `stop`, `noted` and `_ran` is called by its own thread."""

    def __init__(self, settings: Settings, task_loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._task_loop = task_loop
        self._threads = Threads()
        self._children = Children()
        #: By how many seconds the server's clock is ahead.
        self.offset = 0.0
        self.registered = threading.Event()
        # Not the requests of this thread, which never end: they are no news.
        logging.getLogger("httpx").addFilter(_not_of_workers)
        self._thread = threading.Thread(target=self._main, name=_THREAD, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._over: Callable[[], None] = lambda: None
        # Told from other threads.
        self._stops = 0
        self._ends_told: deque[tuple[Run, str]] = deque()
        self._end_is_told = False
        self._note_told: deque[Run] = deque()
        # Of the present life.
        self._worker = ""
        self._lease = settings.lease
        self._grace = 10.0
        self._contact = 0.0
        self._silent_since: float | None = None
        #: By id: taken, and how it ended is not answered yet.
        self._held: dict[str, Run] = {}
        self._ready: deque[Run] = deque()
        #: Those whose code runs, also if nothing comes of it any more.
        self._executing: set[Run] = set()
        #: How many of them go on though their end is decided.
        self._stuck = 0
        self._beats: Beats | None = None
        self._dropped: list[tuple[str, int]] = []
        self._ends: deque[Run] = deque()
        self._noted: dict[tuple[str, int], Run] = {}
        self._flights: list[_Flight] = []
        self._slots_told = 0

    # Called by other threads.

    def start(self, over: Callable[[], None]) -> None:
        """`over` is called when it has stopped, from its thread."""
        self._over = over
        self._thread.start()

    def stop(self) -> None:
        """Stops gracefully: running tasks may end. Called again, they are told to stop at once."""
        self._stops += 1
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._hear_stop)
            except RuntimeError:
                pass  # it has just stopped

    def error(self) -> BaseException | None:
        """Why it has stopped by itself."""
        self._thread.join()
        return self._error

    def noted(self, run: Run, urgent: bool) -> None:
        run.noted = True
        self._note_told.append(run)
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._hear_notes, urgent)

    def _ran(self, run: Run, how: str) -> None:
        self._ends_told.append((run, how))
        if not self._end_is_told:
            # The flag is lowered before the ends are read, so no end is overlooked.
            self._end_is_told = True
            assert self._loop is not None
            self._loop.call_soon_threadsafe(self._hear_ends)

    # Its life.

    def _main(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            self._error = error
        finally:
            self._threads.close()
            self._over()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._room_is_there = asyncio.Event()
        self._ends_are_there = asyncio.Event()
        self._notes_are_there = asyncio.Event()
        self._notes_are_urgent = asyncio.Event()
        self._something_ended = asyncio.Event()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        if self._stops:
            self._hear_stop()
        self._beats = self._new_beats()
        try:
            # Takes, settles, notes and leaving, each on its own connection; a newer take may meet an older one.
            limits = httpx.Limits(max_connections=16, max_keepalive_connections=8, keepalive_expiry=60)
            async with httpx.AsyncClient(**self._settings.server.options(), limits=limits) as self._http:
                while not self._stopping.is_set() and await self._register():
                    try:
                        await self._work()
                        if self._held:
                            await self._give_everything_up()
                        return
                    except Lost as lost:
                        if self._held or not self._stopping.is_set():
                            log.warning("worker %s is lost, and stops its jobs: %s", self._worker, lost)
                        await self._give_everything_up()
                    except BaseException:
                        # It cannot go on: what runs is told to stop, and nothing more can be told to the server.
                        await self._give_everything_up()
                        raise
        finally:
            self._beats, beats = None, self._beats
            if beats is not None:
                await self._loop.run_in_executor(None, beats.close)
            await self._loop.run_in_executor(None, self._children.close)

    async def _register(self) -> bool:
        """Begins a life; `False`: it was stopped before."""
        settings, backoff = self._settings, Backoff()
        # By this id the server recognises a repeated try whose answer was lost. It is another one for each life.
        worker = str(uuid.uuid4())
        name = settings.name or f"{socket.gethostname()[:60]}-{os.getpid()}-{worker[:8]}"
        while not self._stopping.is_set():
            body = {
                "protocol": _version.PROTOCOL, "worker": worker, "name": name, "language": f"python {platform.python_version()}", "client": _version.CLIENT,
                "slots": max(1, settings.slots - len(self._executing)), "buffer": settings.buffer, "lease_ms": round(settings.lease * 1_000),
                "tasks": {name: task.facts for name, task in settings.tasks.items()},
            }  # fmt: skip
            if settings.queues is not None:
                body["queues"] = list(settings.queues)
            sent = time.monotonic()
            try:
                answer = await self._post("", json.dumps(body))
            except (httpx.TransportError, Busy, ServerError) as error:
                log.warning("no server has registered worker %s yet: %s", name, error or type(error).__name__)
                await _within(self._stopping.wait(), backoff.next(getattr(error, "retry_after", None)))
                continue
            except Conflict as error:
                log.warning("worker %s waits: %s", name, error.detail)
                await _within(self._stopping.wait(), backoff.next(error.retry_after))
                continue
            self._worker, self._contact, self._silent_since = answer["worker"], sent, None
            self._lease, self._grace = answer["lease_ms"] / 1_000, answer["grace_ms"] / 1_000
            self._every = answer["beat_ms"] / 1_000
            cut = [task for task in settings.tasks if task not in answer["tasks"]]
            if cut:
                log.warning("the token does not allow these tasks, which are left out: %s", ", ".join(cut))
            self._lost = asyncio.get_running_loop().create_future()
            self._slots_told = settings.slots - len(self._executing)
            self._dropped.clear()
            if self._beats is not None:
                self._beats.begin(self._worker, self._every, self._slots_told, [])
            log.info("worker %s is registered as %s, with %d slots", name, self._worker, settings.slots)
            self.registered.set()
            return True
        return False

    async def _work(self) -> None:
        """Until it has left; raises :class:`Lost`, or what does not go away."""
        loops = [self._take_jobs(), self._settle_ends(), self._send_notes(), self._watch(), self._drain()]
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(one) for one in loops]
        try:
            await asyncio.wait([*tasks, self._lost], return_when=asyncio.FIRST_COMPLETED)
            if self._lost.done():
                self._lost.result()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            flights = [flight.asked for flight in self._flights]
            for task in [*tasks, *flights]:
                task.cancel()
            await asyncio.gather(*tasks, *flights, return_exceptions=True)
            self._flights.clear()
            if not self._lost.cancel():
                self._lost.exception()  # is read, whether or not it is what is raised

    async def _give_everything_up(self) -> None:
        """The jobs are others' now: all runs stop before this worker does anything else. A thread that does not stop keeps its slot."""
        for run in list(self._held.values()):
            self._lose(run)
        self._ready.clear()
        self._ends.clear()
        self._noted.clear()
        until = time.monotonic() + _SHORT_GRACE + 1
        while self._executing and time.monotonic() < until:
            self._something_ended.clear()
            await _within(self._something_ended.wait(), until - time.monotonic())
        if self._executing:
            log.warning("%d tasks do not stop, though their jobs are lost; they keep their slots", len(self._executing))

    # Requests.

    async def _post(self, path: str, body: str, wait: float = 0.0) -> Any:
        response = await self._http.post(
            f"/workers{path}", content=body.encode(), headers={"content-type": "application/json"}, timeout=httpx.Timeout(20.0 + wait)
        )
        offset = ahead(response, time.time())
        if offset is not None:
            self.offset = offset
        if response.is_success:
            return json.loads(response.content)
        raise problem(response.status_code, response.content, response.headers.get("retry-after"))

    async def _ask(self, verb: str, body: Callable[[], str], wait: float = 0.0) -> Any:
        """Asks until there is an answer. The body is made anew for each try."""
        backoff = Backoff()
        while True:
            try:
                return await self._post(f"/{self._worker}/{verb}", body(), wait)
            except (Conflict, NotFound) as error:
                raise Lost(error.detail or str(error)) from error
            except (Busy, ServerError) as error:
                pause = backoff.next(error.retry_after)
            except httpx.TransportError:
                pause = backoff.next()
            await asyncio.sleep(pause)

    # Taking.

    def _room(self) -> int:
        if self._stopping.is_set():
            return 0
        return max(0, self._settings.slots + self._settings.buffer - len(self._executing) - len(self._ready))

    async def _take_jobs(self) -> None:
        while True:
            for flight in self._flights:
                if flight.asked.done():
                    flight.asked.result()
            self._flights = [flight for flight in self._flights if not flight.asked.done()]
            room = self._room()
            if not self._flights and room == 0:
                # Jobs that end soon make room, and a take for stops alone would be for nothing.
                self._room_is_there.clear()
                await _within(self._room_is_there.wait(), _FULL)
                room = self._room()
            # A take that waits for stops alone is followed by one that takes, as soon as there is room; the server ends the older one.
            if not self._flights or room and not any(flight.n for flight in self._flights):
                flight = _Flight(min(room, _BATCH))
                flight.asked = asyncio.ensure_future(self._take(flight))
                self._flights.append(flight)
            self._room_is_there.clear()
            if self._room() and not any(flight.n for flight in self._flights):
                continue
            waiting: asyncio.Future[Any] = asyncio.ensure_future(self._room_is_there.wait())
            under_way: list[asyncio.Future[Any]] = [flight.asked for flight in self._flights]
            await asyncio.wait([waiting, *under_way], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def _take(self, flight: _Flight, wait: float = _TAKE_WAIT) -> None:
        def body() -> str:
            held = "},".join([run.fragment for run in self._held.values()])
            return f'{{"n":{flight.n},"wait_ms":{round(wait * 1_000)},"held":[{held}{"}" if held else ""}]}}'

        asked = time.monotonic()
        answer = await self._ask("take", body, wait)
        if answer["jobs"]:
            self._accept(answer["jobs"])
        if answer["stop"]:
            self._stop_what(answer["stop"])
        if not answer["jobs"] and time.monotonic() - asked < min(_NOTHING_NEW, wait):
            # A server that stops answers at once, and so may one that repeats what this worker is about to stop.
            await asyncio.sleep(_NOTHING_NEW)

    def _accept(self, jobs: Iterable[dict[str, Any]]) -> None:
        new = []
        for said in jobs:
            # A repeated answer brings what is here already. What has ended meanwhile it cannot bring: one take at a time asks for jobs, and
            # it has named all that was held when it was sent.
            known = self._held.get(said["id"])
            if known is not None:
                if known.fence >= said["fence"]:
                    continue
                # The earlier run is over for the server, which has given the job to this worker once more.
                self._lose(known)
            run = Run(said, self._settings.tasks[said["task"]], self)
            self._held[run.id] = run
            self._ready.append(run)
            new.append(run.key)
        if new:
            # Before they begin: a task may keep Python's lock from its first line on.
            self._tell_held(new)
            self._begin()
            if self._stopping.is_set():
                self._something_ended.set()

    def _tell_held(self, new: list[tuple[str, int]]) -> None:
        if self._beats is not None and (new or self._dropped):
            self._beats.tell({"drop": self._dropped, "hold": new})
            self._dropped.clear()

    # Running.

    def _in_doubt(self) -> bool:
        return time.monotonic() - self._contact > self._lease * 0.8

    def _begin(self) -> None:
        """Starts what is ready, as far as there are slots."""
        if not self._ready or len(self._executing) >= self._settings.slots or self._in_doubt() or self._stopping.is_set():
            return
        in_loop = []
        now = time.monotonic()
        while self._ready and len(self._executing) < self._settings.slots:
            run = self._ready.popleft()
            run.began, run.executing = now, True
            self._executing.add(run)
            if run.timeout is not None:
                assert self._loop is not None
                run.timer = self._loop.call_later(run.timeout, self._stop, run, "timed_out", _SHORT_GRACE)
            if run.task.is_async:
                run.begin_in(self._task_loop)
                in_loop.append(run)
            elif run.task.stoppable:
                self._threads.run(_bound(self._children.run, run), _ended_by(self._ran, run))
            else:
                self._threads.run(_bound_here(run), _ended_by(self._ran, run))
        if in_loop:
            try:
                self._task_loop.call_soon_threadsafe(self._begin_async, in_loop)
            except RuntimeError:
                # The loop of the async tasks was closed before the worker was stopped.
                for run in in_loop:
                    self._ran(run, outcome.INTERRUPTED)

    def _begin_async(self, runs: list[Run]) -> None:
        """Called in the loop of the async tasks."""
        for run in runs:
            if run.stop_reason is not None:
                # An asyncio task that is cancelled before its first step never begins, and would never end.
                self._ran(run, stopped(run.stop_reason))
                continue
            run.runs_as(self._task_loop.create_task(self._run_async(run)))

    async def _run_async(self, run: Run) -> None:
        self._ran(run, await run_async(run.task, run.said, run))

    def _hear_ends(self) -> None:
        self._end_is_told = False
        while self._ends_told:
            run, how = self._ends_told.popleft()
            self._executing.discard(run)
            run.executing = False
            if run.timer is not None:
                run.timer.cancel()
            if run.ended:
                self._stuck -= 1
            else:
                self._end(run, how)
        self._something_ended.set()
        self._begin()
        if self._room():
            self._room_is_there.set()
        self._tell_slots()

    def _end(self, run: Run, how: str) -> None:
        """How it ended is decided, and on its way to the server once its notes are there."""
        run.ended = True
        self._stuck += run.executing
        ran = "" if run.began is None else f',"ran_ms":{round((time.monotonic() - run.began) * 1_000)}'
        run.end = f'{run.fragment}{ran},"outcome":{how}}}'
        if run.notes is not None and run.notes.waiting():
            self._noted[run.key] = run
            self._notes_are_there.set()
            self._notes_are_urgent.set()
        else:
            run.told = True
            self._ends.append(run)
            self._ends_are_there.set()

    def _tell_slots(self) -> None:
        """A task that does not stop, though its run is over, keeps its slot: the server gives fewer jobs meanwhile."""
        slots = 0 if self._stopping.is_set() else self._settings.slots - self._stuck
        if slots != self._slots_told:
            self._slots_told = slots
            if self._beats is not None:
                self._beats.tell({"slots": slots})

    # Stopping.

    def _stop_what(self, stops: Iterable[dict[str, Any]]) -> None:
        for said in stops:
            run = self._held.get(said["id"])
            if run is None or run.fence != said["fence"] or run.ended:
                continue
            if said["reason"] != "cancelled":
                self._lose(run, said["reason"])
            elif run.executing:
                self._stop(run, "cancelled", self._grace)
            else:
                self._ready.remove(run)
                self._end(run, outcome.CANCELLED)

    def _stop(self, run: Run, reason: str, grace: float) -> None:
        """Tells the task to stop; what does not stop in time is given up."""
        if not run.executing or run.stop_reason is not None and reason != "gone":
            return
        run.stop(reason)
        if run.timer is not None:
            run.timer.cancel()
        assert self._loop is not None
        run.timer = self._loop.call_later(grace, self._give_up, run)

    def _give_up(self, run: Run) -> None:
        if not run.executing:
            return
        child = run.child
        if child is not None:
            child.kill(run)
            return
        if not run.ended:
            log.warning("task %s of job %s does not stop (%s); it keeps its slot until it does", run.task.name, run.id, run.stop_reason)
            self._end(run, stopped(run.stop_reason or "gone"))
        self._tell_slots()

    def _lose(self, run: Run, reason: str = "gone") -> None:
        """The job is not this worker's any more: its task stops, and nothing is told of it."""
        was_ready = not run.executing and not run.ended
        self._stuck += run.executing and not run.ended
        run.ended = True
        self._drop(run)
        if was_ready and run in self._ready:
            self._ready.remove(run)
        if run.notes is not None:
            self._noted.pop(run.key, None)
            run.notes.drop("gone")
        self._stop(run, reason, _SHORT_GRACE)

    def _drop(self, run: Run) -> None:
        """It is not held any more."""
        if self._is_held(run):
            del self._held[run.id]
            self._dropped.append(run.key)

    def _is_held(self, run: Run) -> bool:
        return self._held.get(run.id) is run

    # Ends.

    async def _settle_ends(self) -> None:
        while True:
            await self._ends_are_there.wait()
            batch: list[Run] = []
            size = 0
            while self._ends and len(batch) < _BATCH and size < _BATCH_BYTES:
                run = self._ends.popleft()
                if self._is_held(run):
                    size += len(run.end)
                    batch.append(run)
            if not self._ends:
                self._ends_are_there.clear()
            if batch:
                await self._settle(batch)

    async def _settle(self, batch: list[Run]) -> None:
        try:
            answer = await self._ask("settle", lambda: f'{{"ends":[{",".join([run.end for run in batch])}]}}')
        except Invalid as error:
            await self._settle_one_by_one(batch, error)
            return
        for run, said in zip(batch, answer["ends"]):
            if said["answer"] == "locked":
                assert self._loop is not None
                self._loop.call_later(0.1, self._settle_again, run)
                continue
            if said["answer"] == "invalid":
                log.warning("the end of job %s (%s) could not be stored: %s", run.id, run.task.name, said.get("detail"))
            self._drop(run)
        self._something_ended.set()

    async def _settle_one_by_one(self, batch: list[Run], error: ProblemError) -> None:
        """The server does not take the request as it is: the end that spoils it is found, and fails its job with what the server said."""
        if len(batch) > 1:
            half = len(batch) // 2
            await self._settle(batch[:half])
            await self._settle(batch[half:])
            return
        run = batch[0]
        if run.end.startswith(f"{run.fragment},\"outcome\":{{\"outcome\":\"fail\""):
            log.error("the server refuses the end of job %s (%s): %s", run.id, run.task.name, error)
            self._drop(run)
            return
        run.end = f'{run.fragment},"outcome":{outcome.failed(f"the server refused how it ended: {error}")}}}'
        await self._settle(batch)

    def _settle_again(self, run: Run) -> None:
        if self._is_held(run):
            self._ends.append(run)
            self._ends_are_there.set()

    # Notes.

    def _hear_notes(self, urgent: bool) -> None:
        while self._note_told:
            run = self._note_told.popleft()
            if self._is_held(run):
                self._noted[run.key] = run
            elif run.notes is not None:
                run.notes.drop("gone")
        if self._noted:
            self._notes_are_there.set()
        if urgent:
            self._notes_are_urgent.set()

    async def _send_notes(self) -> None:
        while True:
            await self._notes_are_there.wait()
            await _within(self._notes_are_urgent.wait(), _NOTE_EVERY)
            self._notes_are_there.clear()
            self._notes_are_urgent.clear()
            batch: list[tuple[Run, str]] = []
            size = 0
            for key, run in list(self._noted.items()):
                if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                    self._notes_are_there.set()
                    self._notes_are_urgent.set()
                    break
                del self._noted[key]
                run.noted = False
                said = run.notes.take() if run.notes is not None else None
                if said is not None:
                    size += len(said)
                    batch.append((run, said))
                elif run.ended and run.notes is not None and not run.notes.waiting():
                    self._noted_at_last(run)
            if batch:
                await self._note([run for run, _ in batch])

    async def _note(self, batch: list[Run]) -> None:
        def body() -> str:
            return f'{{"notes":[{",".join([f"{run.fragment},{run.notes.again()}}}" for run in batch if run.notes is not None])}]}}'

        try:
            answers = [said["answer"] for said in (await self._ask("note", body))["notes"]]
        except Invalid as error:
            if len(batch) > 1:
                for run in batch:
                    await self._note([run])
                return
            log.warning("the server refuses what job %s (%s) has noted: %s", batch[0].id, batch[0].task.name, error)
            answers = [error.detail or str(error)]
        for run, answer in zip(batch, answers):
            if run.notes is None or not self._is_held(run):
                continue
            if answer == "locked":
                assert self._loop is not None
                self._loop.call_later(0.1, self._note_again, run)
                continue
            run.notes.answered(answer)
            if answer in ("stale", "gone") and not run.ended:
                self._lose(run)
            elif run.notes.waiting():
                self._noted[run.key] = run
                self._notes_are_there.set()
                if run.ended:
                    self._notes_are_urgent.set()
            elif run.ended:
                self._noted_at_last(run)

    def _note_again(self, run: Run) -> None:
        if self._is_held(run):
            asyncio.ensure_future(self._note_once_more(run))

    async def _note_once_more(self, run: Run) -> None:
        try:
            await self._note([run])
        except Lost as lost:
            self._is_lost(lost)

    def _noted_at_last(self, run: Run) -> None:
        """All that an ended run has said is stored: now its end may follow. Once: what a thread says that the task has left behind is too late."""
        if self._is_held(run) and not run.told:
            run.told = True
            self._ends.append(run)
            self._ends_are_there.set()

    # Beats.

    def _new_beats(self) -> Beats:
        assert self._loop is not None
        loop = self._loop

        def in_loop(do: Callable[..., None], *about: Any) -> None:
            try:
                loop.call_soon_threadsafe(do, *about)
            except RuntimeError:
                pass  # the worker has stopped

        return Beats(self._settings.server, lambda said: in_loop(self._hear_beat, said), lambda beats: in_loop(self._beats_ended, beats))

    def _hear_beat(self, said: dict[str, Any]) -> None:
        if said["worker"] != self._worker:
            return
        if "sent" in said:
            if self._silent_since is not None:
                log.warning("a server answers the beats of worker %s again, after %.0f s", self._worker, time.monotonic() - self._silent_since)
                self._silent_since = None
            self._contact = max(self._contact, said["sent"])
            self._lease = (said.get("lease_ms") or self._lease * 1_000) / 1_000
            self._stop_what(said["stop"])
            self._begin()
        elif "silent" in said:
            if self._silent_since is None:
                self._silent_since = time.monotonic()
                log.warning("no server answers the beats of worker %s: %s", self._worker, said["silent"])
        elif said["status"] in (404, 409):
            self._is_lost(Lost(said["detail"]))
        elif said["status"] in (401, 403):
            self._is_lost((Unauthorized if said["status"] == 401 else Forbidden)(said["status"], {"detail": said["detail"]}))
        else:
            log.warning("the server answers a beat of worker %s with %s: %s", self._worker, said["status"], said["detail"])

    def _is_lost(self, error: Exception) -> None:
        if not self._lost.done():
            self._lost.set_exception(error)

    def _beats_ended(self, beats: Beats) -> None:
        if beats is not self._beats or self._loop is None:
            return
        log.error("the process that beats for worker %s has ended; another one is started", self._worker)
        self._beats = None
        self._loop.call_later(0.5, self._beat_again)

    def _beat_again(self) -> None:
        if self._beats is None and self._worker:
            try:
                self._beats = self._new_beats()
            except OSError as error:
                log.error("the process that beats cannot be started: %s", error)
                assert self._loop is not None
                self._loop.call_later(1.0, self._beat_again)
                return
            self._dropped.clear()
            self._beats.begin(self._worker, self._every, self._slots_told, [run.key for run in self._held.values()])

    async def _watch(self) -> None:
        """Without an answer for four fifths of the lease, jobs that a limit counts are stopped: another worker may soon run them."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(_WATCH)
            self._tell_held([])
            if self._beats is not None:
                self._beats.flush()
            # After a task has kept Python's lock for long, answers to beats were heard that this thread has not read yet.
            if self._in_doubt() and time.monotonic() - before < 4 * _WATCH:
                for run in list(self._held.values()):
                    if run.limited:
                        self._stop(run, "doubt", self._lease / 10)

    # Leaving.

    def _hear_stop(self) -> None:
        self._stopping.set()
        self._room_is_there.set()
        self._tell_slots()
        if self._stops > 1:
            self._hurry.set()

    async def _drain(self) -> None:
        """Once it is asked to stop: no more jobs, what has not begun goes back, what runs may end, and then it leaves."""
        await self._stopping.wait()
        log.info("worker %s stops; %d tasks run", self._worker, len(self._executing))
        leaving: asyncio.Future[Any] = asyncio.ensure_future(self._leave_in_order())
        hurry: asyncio.Future[Any] = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait([leaving, hurry], timeout=self._settings.stop_timeout, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([leaving], timeout=min(5.0, self._grace) + 10)
            if leaving.done():
                leaving.result()
            else:
                log.warning("worker %s could not tell a server how its jobs ended: they go to others when its lease is over", self._worker)
        finally:
            hurry.cancel()
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    async def _leave_in_order(self) -> None:
        def body() -> str:
            return f'{{"slots":0,"held":[{",".join([run.fragment + "}" for run in self._held.values()])}]}}'

        # From its answer on nothing more is assigned, so that what goes back now is all.
        self._stop_what((await self._ask("beat", body))["stop"])
        if await self._leave():
            return
        await self._until_settled(self._settings.stop_timeout, self._hurry)
        if self._held:
            log.warning("worker %s does not wait longer for %d jobs, which go back", self._worker, len(self._held))
            for run in list(self._held.values()):
                self._stop(run, "stopping", min(5.0, self._grace))
            await self._until_settled(min(5.0, self._grace) + 10, None)
        while not await self._leave():
            await asyncio.sleep(0.1)

    async def _until_settled(self, seconds: float, hurry: asyncio.Event | None) -> None:
        """Until nothing is held any more. What has not begun goes back at once."""
        until = time.monotonic() + seconds
        while True:
            if self._ready:
                # Also what a take has brought that was under way.
                await self._leave()
            if not self._held or time.monotonic() >= until or hurry is not None and hurry.is_set():
                return
            self._something_ended.clear()
            waits: list[Coroutine[Any, Any, Any]] = [self._something_ended.wait()]
            if hurry is not None:
                waits.append(hurry.wait())
            tasks = [asyncio.ensure_future(one) for one in waits]
            await asyncio.wait(tasks, timeout=max(0.0, until - time.monotonic()), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()

    async def _leave(self) -> bool:
        """Hands back what has not begun. Whether the worker is gone: not while jobs are in its hands."""
        back = list(self._ready)

        def body() -> str:
            held = [run.fragment + "}" for run in self._held.values() if run.executing or run.ended]
            return f'{{"back":[{",".join([run.fragment + "}" for run in back])}],"held":[{",".join(held)}]}}'

        try:
            answer = await self._ask("leave", body)
        except Lost:
            return True  # an earlier try was answered, and the answer lost
        for run in back:
            if run in self._ready:
                self._ready.remove(run)
                run.ended = True
                self._drop(run)
        return bool(answer["left"])


class _Flight:
    """A take that is under way."""

    asked: asyncio.Future[None]

    def __init__(self, n: int) -> None:
        self.n = n


def _bound(run_it: Callable[[Run], str], run: Run) -> Callable[[], str]:
    return lambda: run_it(run)


def _bound_here(run: Run) -> Callable[[], str]:
    return lambda: run_here(run.task, run.said, run)


def _ended_by(tell: Callable[[Run, str], None], run: Run) -> Callable[[str], None]:
    return lambda how: tell(run, how)


def _not_of_workers(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD


async def _within(wait: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Waits, so many seconds at most."""
    try:
        await asyncio.wait_for(wait, max(0.0, seconds))
    except (TimeoutError, asyncio.TimeoutError):
        pass

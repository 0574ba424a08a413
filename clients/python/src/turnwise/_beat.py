"""The process that beats: while the worker's own threads wait for Python's lock, or a task blocks them, it says that the worker lives.

It reads lines of JSON from its standard input, and writes what it hears from the server to its standard output. When the input ends, the
worker is gone, and so is this process. It does not beat for a worker that was stopped by a signal: such a worker runs nothing.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

import httpx

from . import _signals
from ._backoff import Backoff
from ._server import Server
from .errors import problem

#: Answers that wait to be read by the worker. If it does not read, later ones say the same again.
_UNREAD = 1_000


def main() -> None:
    _signals.ignored()
    beater = _Beater(os.getppid())
    threading.Thread(target=beater.beat, daemon=True).start()
    threading.Thread(target=beater.write, daemon=True).start()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin.buffer:
        beater.hear(json.loads(line))
    os._exit(0)


class _Beater:
    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._told: queue.Queue[dict[str, Any]] = queue.Queue(_UNREAD)
        self._changed = threading.Condition()
        self._http: httpx.Client | None = None
        self._worker: str | None = None
        self._slots = 0
        self._every = 10.0
        self._held: dict[str, int] = {}
        self._at_once = False

    def hear(self, said: dict[str, Any]) -> None:
        with self._changed:
            if "server" in said:
                self._http = httpx.Client(**Server(**said["server"]).options())
            if "worker" in said:
                self._worker, self._every, self._held = said["worker"], said["every"], {}
            for id, fence in said.get("hold", ()):
                self._held[id] = fence
            for id, fence in said.get("drop", ()):
                if self._held.get(id) == fence:
                    del self._held[id]
            if "slots" in said:
                self._slots = said["slots"]
                self._at_once = True
            self._changed.notify()

    def beat(self) -> None:
        due, backoff = 0.0, Backoff()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._worker is not None and self._at_once, max(0.0, due - time.monotonic()))
                http, worker, self._at_once = self._http, self._worker, False
                held = ",".join(f'{{"id":"{id}","fence":{fence}}}' for id, fence in self._held.items())
                body = f'{{"slots":{self._slots},"held":[{held}]}}'
            if http is None or worker is None:
                due = time.monotonic() + 3_600
                continue
            if _is_stopped(self._parent):
                due = time.monotonic() + min(1.0, self._every)
                continue
            sent = time.monotonic()
            try:
                response = http.post(
                    f"/workers/{worker}/beat", content=body, headers={"content-type": "application/json"}, timeout=max(2.0, self._every)
                )
            except httpx.HTTPError as error:
                self._tell({"worker": worker, "silent": f"{type(error).__name__}: {error}"})
                due = time.monotonic() + min(self._every, backoff.next())
                continue
            if response.is_success:
                answer = response.json()
                backoff.reset()
                due = sent + self._every
                stops = answer.get("stop", [])
                self._tell({"worker": worker, "sent": sent, "lease_ms": answer.get("lease_ms"), "stop": stops})
                continue
            error_of = problem(response.status_code, response.content, response.headers.get("retry-after"))
            self._tell({"worker": worker, "status": error_of.status, "detail": error_of.detail or error_of.title})
            if error_of.status in (401, 403, 404, 409):
                with self._changed:
                    # The worker decides what follows; unless it registers anew, there is nothing to beat for.
                    self._worker = None if self._worker == worker else self._worker
                due = 0.0 if self._worker else time.monotonic() + 3_600
            else:
                due = time.monotonic() + min(self._every, backoff.next(error_of.retry_after))

    def _tell(self, said: dict[str, Any]) -> None:
        try:
            self._told.put_nowait(said)
        except queue.Full:
            pass  # the worker does not read; a later answer will say it again

    def write(self) -> None:
        try:
            while True:
                sys.stdout.write(json.dumps(self._told.get()) + "\n")
                sys.stdout.flush()
        except (OSError, ValueError):
            os._exit(0)


def _end_with(parent: int) -> None:
    """A process that the worker has forked keeps the pipe open when the worker dies. Then another process is the parent of this one."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _is_stopped(pid: int) -> bool:
    """Whether a signal (SIGSTOP, a terminal, a debugger) keeps this process from running. Known on Linux alone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False

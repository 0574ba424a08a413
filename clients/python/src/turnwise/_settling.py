"""Ends of runs on their way to the server: they gather while a settle is under way."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from . import outcome
from ._asking import Asking
from ._run import Run
from .errors import Invalid, ProblemError

log = logging.getLogger("turnwise")

#: Most ends of one settle, by the protocol.
_BATCH = 1_000
#: Most bytes of one settle, unless a single end has more; the server takes 32 MiB.
_BATCH_BYTES = 4 * 1024 * 1024
#: When an end is sent again whose job was locked.
_LOCKED = 0.1


class Settling:
    def __init__(self, asking: Asking, is_held: Callable[[Run], bool], settled: Callable[[Run], None]) -> None:
        """An end is sent while its run `is_held`; `settled` is told once the server has it, or never will."""
        self._asking, self._is_held, self._settled = asking, is_held, settled
        self._ends: deque[Run] = deque()
        self._some = asyncio.Event()

    def add(self, run: Run) -> None:
        """Its end is to be told."""
        self._ends.append(run)
        self._some.set()

    def clear(self) -> None:
        self._ends.clear()

    async def loop(self) -> None:
        while True:
            await self._some.wait()
            batch: list[Run] = []
            size = 0
            while self._ends and len(batch) < _BATCH and size < _BATCH_BYTES:
                run = self._ends.popleft()
                if self._is_held(run):
                    size += len(run.end)
                    batch.append(run)
            if not self._ends:
                self._some.clear()
            if batch:
                await self._settle(batch)

    async def _settle(self, batch: list[Run]) -> None:
        try:
            answer = await self._asking.ask("settle", lambda: f'{{"ends":[{",".join([run.end for run in batch])}]}}')
        except Invalid as error:
            await self._find(batch, error)
            return
        for run, said in zip(batch, answer["ends"], strict=True):
            if said["answer"] == "locked":
                asyncio.get_running_loop().call_later(_LOCKED, self.add, run)
                continue
            if said["answer"] == "invalid":
                log.warning("the end of job %s (%s) could not be stored: %s", run.id, run.task.name, said.get("detail"))
            self._settled(run)

    async def _find(self, batch: list[Run], error: ProblemError) -> None:
        """The server does not take the request as it is: the end that spoils it is found by halves, and fails its job with what the server said."""
        if len(batch) > 1:
            half = len(batch) // 2
            await self._settle(batch[:half])
            await self._settle(batch[half:])
            return
        run = batch[0]
        replaced = f'{run.fragment},"outcome":{{"outcome":"fail"'
        if run.end.startswith(replaced):
            log.error("the server refuses the end of job %s (%s): %s", run.id, run.task.name, error)
            self._settled(run)
            return
        run.end = f'{run.fragment},"outcome":{outcome.failed(f"the server refused how it ended: {error}")}}}'
        await self._settle(batch)

"""What runs say, on its way to the server: lines and progress a few times a second, steps and the last words of a run at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ._asking import Asking
from ._run import Run
from .errors import Invalid

log = logging.getLogger("turnwise")

#: Most runs of one note.
_BATCH = 1_000
#: Most bytes of one note, unless those of a single run are more; the server takes 32 MiB.
_BATCH_BYTES = 4 * 1024 * 1024
#: Lines and progress are sent this often.
_EVERY = 0.25
#: When a note is sent again whose job was locked.
_LOCKED = 0.1


class Noting:
    def __init__(self, asking: Asking, is_held: Callable[[Run], bool], lose: Callable[[Run], None], last: Callable[[Run], None]) -> None:
        """`lose` is told of a run whose job is another worker's, `last` of an ended run once all that it has said is stored."""
        self._asking, self._is_held, self._lose, self._last = asking, is_held, lose, last
        self._runs: dict[tuple[str, int], Run] = {}
        self._locked: list[Run] = []
        self._some = asyncio.Event()
        self._urgent = asyncio.Event()

    def add(self, run: Run, urgent: bool) -> None:
        """It has said something."""
        if not self._is_held(run):
            self.drop(run)
            return
        self._runs[run.key] = run
        self._some.set()
        if urgent:
            self._urgent.set()

    def drop(self, run: Run) -> None:
        """Nothing more of it is sent."""
        self._runs.pop(run.key, None)
        if run.notes is not None:
            run.notes.drop("gone")

    def clear(self) -> None:
        self._runs.clear()
        self._locked.clear()

    async def loop(self) -> None:
        while True:
            await self._some.wait()
            try:
                await asyncio.wait_for(self._urgent.wait(), _EVERY)
            except (TimeoutError, asyncio.TimeoutError):
                pass
            self._some.clear()
            self._urgent.clear()
            batch = self._batch()
            if batch:
                await self._note(batch)

    def _batch(self) -> list[Run]:
        # What was locked is sent as it was: it is still under way.
        batch, self._locked = [run for run in self._locked if self._is_held(run)], []
        size = 0
        for key, run in list(self._runs.items()):
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                self._some.set()
                self._urgent.set()
                break
            del self._runs[key]
            # From here on the task's thread says anew that there is something.
            run.noted = False
            said = run.notes.take() if run.notes is not None else None
            if said is not None:
                size += len(said)
                batch.append(run)
            elif run.ended and run.notes is not None and not run.notes.waiting():
                self._last(run)
        return batch

    async def _note(self, batch: list[Run]) -> None:
        def body() -> str:
            return f'{{"notes":[{",".join([f"{run.fragment},{run.notes.again()}}}" for run in batch if run.notes is not None])}]}}'

        try:
            answers = [said["answer"] for said in (await self._asking.ask("note", body))["notes"]]
        except Invalid as error:
            if len(batch) > 1:
                for run in batch:
                    await self._note([run])
                return
            log.warning("the server refuses what job %s (%s) has noted: %s", batch[0].id, batch[0].task.name, error)
            answers = [error.detail or str(error)]
        for run, answer in zip(batch, answers, strict=True):
            if run.notes is None or not self._is_held(run):
                continue
            if answer == "locked":
                asyncio.get_running_loop().call_later(_LOCKED, self._again, run)
                continue
            run.notes.answered(answer)
            if answer in ("stale", "gone") and not run.ended:
                self._lose(run)
            elif run.notes.waiting():
                self.add(run, urgent=run.ended)
            elif run.ended:
                self._last(run)

    def _again(self, run: Run) -> None:
        self._locked.append(run)
        self._some.set()
        self._urgent.set()

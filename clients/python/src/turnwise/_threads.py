"""The threads in which tasks run that are not async."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Threads:
    """Started when they are needed, kept for the next job. A thread whose task never returns does not keep the process from ending."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Callable[[], str], Callable[[str], None]] | None] = SimpleQueue()
        self._idle = 0
        self._started = 0
        self._lock = threading.Lock()

    def run(self, work: Callable[[], str], ended: Callable[[str], None]) -> None:
        """Runs it in an idle thread, or in a new one, which tells how it ended. The caller sees to it that they are not too many: one for each slot."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._started += 1
                threading.Thread(target=self._serve, name=f"turnwise-{self._started}", daemon=True).start()
        self._work.put((work, ended))

    def _serve(self) -> None:
        while (given := self._work.get()) is not None:
            work, ended = given
            how = work()
            with self._lock:
                self._idle += 1
            ended(how)

    def close(self) -> None:
        """Ends all threads once they are idle."""
        for _ in range(self._started):
            self._work.put(None)

"""What a run says while it goes on, until the server has it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone

#: Lines of one run that wait to be sent. Of lines that come faster than they can be written the oldest are dropped.
MAX_WAITING = 1_000
#: Lines of one run in one request.
MAX_AT_A_TIME = 500


class Notes:
    """Filled by the task's thread, emptied by the worker's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._number = 0
        self._progress: str | None = None
        self._steps: list[tuple[str, Callable[[str], None]]] = []
        # What is under way, as it was sent: a repeated note has the same lines with the same numbers.
        self._lines_sent: list[str] = []
        self._progress_sent: str | None = None
        self._steps_sent: list[tuple[str, Callable[[str], None]]] = []
        self.under_way = False

    def line(self, level: str, text: str) -> None:
        at = datetime.fromtimestamp(time.time(), timezone.utc).isoformat()
        said = f'"level":"{level}","text":{json.dumps(text)},"time":"{at}"}}'
        with self._lock:
            if len(self._lines) >= MAX_WAITING:
                self._lines.popleft()
                self._dropped += 1
            self._lines.append(said)

    def progress(self, done: int, total: int, text: str) -> None:
        said = f'{{"done":{done},"total":{total},"text":{json.dumps(text)}}}'
        with self._lock:
            self._progress = said

    def step(self, name: str, result: str, answered: Callable[[str], None]) -> None:
        with self._lock:
            self._steps.append((f'{{"name":{json.dumps(name)},"result":{result}}}', answered))

    def waiting(self) -> bool:
        """Whether there is something that the server has not answered."""
        with self._lock:
            return bool(self._lines or self._progress or self._steps or self.under_way)

    def take(self) -> str | None:
        """The fields of a note with what is to be sent; ``None``: nothing. Until it is answered, nothing else is taken."""
        with self._lock:
            if self.under_way or not (self._lines or self._progress or self._steps or self._dropped):
                return None
            self.under_way = True
            if self._dropped:
                at = datetime.fromtimestamp(time.time(), timezone.utc).isoformat()
                said = f"{self._dropped} lines that came faster than they could be written were dropped"
                self._lines.appendleft(f'"level":"warn","text":"{said}","time":"{at}"}}')
                self._dropped = 0
            while self._lines and len(self._lines_sent) < MAX_AT_A_TIME:
                self._lines_sent.append(f'{{"number":{self._number},{self._lines.popleft()}')
                self._number += 1
            self._progress_sent, self._progress = self._progress, None
            self._steps_sent, self._steps = self._steps, []
            return self._said()

    def again(self) -> str:
        """The same once more."""
        with self._lock:
            return self._said()

    def _said(self) -> str:
        fields = []
        if self._lines_sent:
            fields.append(f'"lines":[{",".join(self._lines_sent)}]')
        if self._progress_sent is not None:
            fields.append(f'"progress":{self._progress_sent}')
        if self._steps_sent:
            fields.append(f'"steps":[{",".join(said for said, _ in self._steps_sent)}]')
        return ",".join(fields)

    def answered(self, answer: str) -> None:
        """What was under way is stored, or never will be."""
        with self._lock:
            steps, self._steps_sent = self._steps_sent, []
            self._lines_sent, self._progress_sent, self.under_way = [], None, False
        for _, hear in steps:
            hear(answer)

    def drop(self, answer: str) -> None:
        """The job is not this worker's any more: a task that waits for a step hears so, and nothing else is kept."""
        with self._lock:
            steps = self._steps_sent + self._steps
            self._steps_sent, self._steps = [], []
            self._lines.clear()
            self._lines_sent, self._progress, self._progress_sent, self._dropped, self.under_way = [], None, None, 0, False
        for _, hear in steps:
            hear(answer)

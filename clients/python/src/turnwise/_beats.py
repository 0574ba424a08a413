"""The worker's side of the process that beats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from . import _signals
from ._server import Server

#: What may wait in the pipe to a process that does not read: then it is stuck, and replaced.
_MAX_UNREAD = 8 * 1024 * 1024
# The process finds this package where this process has found it.
_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from turnwise._beat import main; main()"


class Beats:
    """Starts the process, tells it what the worker holds, and passes on what it hears. `heard` is called from a thread of its own."""

    def __init__(self, server: Server, heard: Callable[[dict[str, Any]], None], ended: Callable[[Beats], None]) -> None:
        self._heard, self._ended = heard, ended
        self._unsent = b""
        with _signals.blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CODE, json.dumps(sys.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        if hasattr(os, "set_blocking") and sys.platform != "win32":
            # The worker never waits for this process.
            os.set_blocking(self._pipe, False)
        self._reader = threading.Thread(target=self._read, name="turnwise-heard", daemon=True)
        self._reader.start()
        self.tell({"server": asdict(server)})

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, worker: str, every: float, slots: int, held: Iterable[tuple[str, int]]) -> None:
        """Beats for this life of the worker from now on."""
        self.tell({"worker": worker, "every": every, "hold": list(held), "slots": slots})

    def tell(self, said: dict[str, Any]) -> None:
        self._unsent += json.dumps(said, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Writes what the pipe takes."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._pipe, self._unsent) :]
        except BlockingIOError:
            if len(self._unsent) > _MAX_UNREAD:
                self._process.kill()
        except (OSError, ValueError):
            pass  # it is gone, and the reader says so

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            buffer = b""
            while block := stream.read(65_536):
                *lines, buffer = (buffer + block).split(b"\n")
                for line in lines:
                    self._heard(json.loads(line))
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._ended(self)

    def close(self) -> None:
        """Ends the process, and waits until it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)

"""Processes of a worker start with the signals blocked that stop a service.

A terminal and systemd send these to all processes, also to one that has just been started and ignores nothing yet. A blocked signal waits, and
what is blocked is inherited.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def blocked() -> Iterator[None]:
    """For this thread, and for processes that it starts meanwhile."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignored() -> None:
    """In the main thread of the new process: the worker decides when to stop. What the process starts in turn does not inherit this."""
    for number in _STOPS:
        signal.signal(number, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)

"""How long to wait between two tries."""

from __future__ import annotations

import random


class Backoff:
    """100 ms, doubled up to 5 s, and up to half as much again at random, so that callers who failed together do not come back together."""

    def __init__(self) -> None:
        self._tries = 0

    def next(self, retry_after: float | None = None) -> float:
        wait: float = min(5.0, 0.1 * 2**self._tries)
        self._tries = min(self._tries + 1, 10)
        return max(wait, retry_after or 0.0) * (1 + random.random() / 2)

    def reset(self) -> None:
        self._tries = 0

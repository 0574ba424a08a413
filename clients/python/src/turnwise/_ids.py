"""Ids of jobs: UUIDs of version 7, which begin with the time.

A caller that names the id itself can send a submit again: the server recognises it.
"""

from __future__ import annotations

import os
import threading
import time

_lock = threading.Lock()
_last = 0


def new(offset: float = 0.0) -> str:
    """A new id, by the server's time where it is known to be `offset` seconds ahead of this machine's. Ids grow in the order they are made."""
    global _last
    moment = int((time.time() + offset) * 1_000)
    with _lock:
        # Twelve bits below the millisecond count the ids that are made within it.
        _last = number = max(moment << 12, _last + 1) if _last >> 12 <= moment + 1_000 else moment << 12
    value = (number >> 12) << 80 | 7 << 76 | (number & 0xFFF) << 64 | 2 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

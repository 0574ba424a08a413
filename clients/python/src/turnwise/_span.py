"""Durations: as people give them, and as the server reads them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Union

#: A duration: a text such as ``"10m"`` or ``"1h 30m"``, a number of seconds, or a ``timedelta``.
Span = Union[str, float, int, timedelta]

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PART = re.compile(r"(\d+)(us|ms|s|m|h|d)")


def micros(span: Span) -> int:
    """So many microseconds. ``ValueError`` for what is no duration."""
    if isinstance(span, str):
        parts = [_PART.fullmatch(part) for part in span.split()]
        if not parts or None in parts:
            raise ValueError(f"{span!r} is no duration; write one such as 200ms, 30s, 5m, 2h, 7d or 1h 30m")
        return sum(int(part[1]) * _UNITS[part[2]] for part in parts if part is not None)
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if not 0 <= seconds < 1e11:
        raise ValueError(f"{span!r} is no duration: it must not be negative, and at most some thousand years")
    return round(seconds * 1_000_000)


def seconds(span: Span) -> float:
    return micros(span) / 1_000_000


def text(span: Span) -> str:
    """As the server reads it: the largest unit that says it exactly."""
    exact = micros(span)
    for unit in ("d", "h", "m", "s", "ms"):
        if exact and exact % _UNITS[unit] == 0:
            return f"{exact // _UNITS[unit]}{unit}"
    return f"{exact}us" if exact else "0s"

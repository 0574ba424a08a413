"""Which run the present code belongs to: for the job's log, and for the trace of the jobs that it submits."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ctx import Base

current: ContextVar[Base | None] = ContextVar("turnwise_run", default=None)


def traceparent() -> str | None:
    run = current.get()
    return None if run is None else run.traceparent

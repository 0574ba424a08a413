"""Which run the present code belongs to: for the job's log, and for the trace of the jobs that it submits."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ctx import Base

current: ContextVar[Base | None] = ContextVar("turnwise_run", default=None)


def trace() -> dict[str, str]:
    """The fields of a request for a job of the same trace."""
    run = current.get()
    said = {} if run is None else {"traceparent": run.traceparent, "tracestate": run.tracestate}
    return {name: value for name, value in said.items() if value is not None}

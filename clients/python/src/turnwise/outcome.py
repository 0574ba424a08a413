"""How a run ends, where that is more than a value or an error.

A task returns :class:`Next`, or raises one of the others; what it returns otherwise is its result, and any other exception is an error,
after which it is tried again.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from . import _span
from ._span import Span
from .job import Options, Request, written

if TYPE_CHECKING:
    from .task import Task

#: The longest result that the server keeps.
MAX_RESULT_BYTES = 1024 * 1024
#: Errors are for people: of a longer one the end is cut off.
MAX_ERROR_BYTES = 16 * 1024


class Ending(Exception):
    """The base of what a task raises to end its run in a way of its own. It is no failure of the code."""


class Fail(Ending):
    """The job fails for good, without a retry: ``raise Fail("there is no document 7")``."""


class Retry(Ending):
    """The job is tried again by its policy, as after any other exception, but no traceback is logged."""


class Snooze(Ending):
    """The job runs again after this long, and has spent no attempt: ``raise Snooze("10m")``."""

    def __init__(self, span: Span) -> None:
        super().__init__(f"again in {span}")
        self.span = _span.text(span)


class Cancelled(Ending):
    """The job ends as cancelled, whether or not a person asked for it."""


class Suspended(BaseException):
    """The run ends here and goes on later: a long sleep. No ``except Exception`` of the task stops it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = seconds


class Interrupted(BaseException):
    """The run is to stop where it is: its job is cancelled, over time, or goes back. Raised by the context of the run."""


@dataclass
class Next:
    """The same job goes on as another task: ``return Next("archive", {"id": 7}, {"delay": "1h"})``.

    Its options are those of a job that say when and how it runs: ``delay`` or ``at``, ``retry``, ``timeout``, ``on_exhausted``.
    """

    task: str | Task[Any, Any]
    args: Any = None
    options: Options = field(default_factory=lambda: Options())


DONE = '{"outcome":"done"}'
CANCELLED = '{"outcome":"cancelled"}'
TIMED_OUT = '{"outcome":"timed_out"}'
INTERRUPTED = '{"outcome":"interrupted"}'


def returned(value: Any) -> str:
    """The outcome of a task that returned this, as JSON."""
    if value is None:
        return DONE
    try:
        if isinstance(value, Next):
            task = value.task if isinstance(value.task, str) else value.task.name
            return written({"outcome": "next", "job": Request(task, value.args, value.options).wire()})
        result = written(value)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(f"the result cannot be stored: {error}")
    size = len(result.encode())
    if size > MAX_RESULT_BYTES:
        return failed(f"the result is {size} bytes long, at most {MAX_RESULT_BYTES} are allowed")
    return f'{{"outcome":"done","result":{result}}}'


def raised(error: BaseException) -> str:
    """The outcome of a task that raised this."""
    if isinstance(error, Snooze):
        return f'{{"outcome":"snooze","for":"{error.span}"}}'
    if isinstance(error, Suspended):
        return f'{{"outcome":"snooze","for":"{_span.text(timedelta(seconds=error.seconds))}"}}'
    if isinstance(error, Cancelled):
        return CANCELLED
    if isinstance(error, Fail):
        return failed(str(error) or "failed for good")
    return written({"outcome": "error", "error": clean(str(error) or "to be tried again" if isinstance(error, Retry) else _chain(error), MAX_ERROR_BYTES)})


def failed(text: str) -> str:
    return written({"outcome": "fail", "error": clean(text, MAX_ERROR_BYTES)})


def clean(text: str, most: int) -> str:
    """As the server stores texts: UTF-8 without NUL, so many bytes at most."""
    whole = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
    return whole[:most].decode(errors="ignore")


def _chain(error: BaseException) -> str:
    """The error with its causes, and the place where it was raised."""
    said: list[str] = []
    seen = {id(error)}
    cause: BaseException | None = error
    while cause is not None and len(said) < 10:
        said.append("".join(traceback.format_exception_only(type(cause), cause)).strip())
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        if cause is not None and id(cause) in seen:
            break
        seen.add(id(cause))
    return "; caused by ".join(said)

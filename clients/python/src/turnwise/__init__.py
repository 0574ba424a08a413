"""Turnwise from Python: submit jobs, and run them.

A job queue in which every group gets its turn: https://github.com/turnwise/turnwise.
"""

from ._span import Span
from ._version import VERSION as __version__
from .client import AsyncTurnwise, Turnwise
from .ctx import AsyncCtx, Ctx
from .errors import (
    Busy,
    Conflict,
    Forbidden,
    Invalid,
    JobFailed,
    NotFound,
    ProblemError,
    ServerError,
    TurnwiseError,
    Unauthorized,
    Unreachable,
    WrongValue,
)
from .job import Job, LogLine, Options, Progress, Request, Submitted
from .joblog import JobLogHandler
from .outcome import Cancelled, Fail, Interrupted, Next, Retry, Snooze
from .task import Task, task
from .worker import Worker

__all__ = [
    "AsyncCtx", "AsyncTurnwise", "Busy", "Cancelled", "Conflict", "Ctx", "Fail", "Forbidden", "Interrupted", "Invalid", "Job", "JobFailed",
    "JobLogHandler", "LogLine", "Next", "NotFound", "Options", "ProblemError", "Progress", "Request", "Retry", "ServerError", "Snooze", "Span",
    "Submitted", "Task", "Turnwise", "TurnwiseError", "Unauthorized", "Unreachable", "Worker", "WrongValue", "__version__", "task",
]  # fmt: skip

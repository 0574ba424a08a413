"""What can go wrong at a server, by what the caller does about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .job import Job


class TurnwiseError(Exception):
    """The base of all errors of this package."""


class Unreachable(TurnwiseError):
    """No server answered, however often it was asked. What was asked may have been done all the same."""


class JobFailed(TurnwiseError):
    """A job whose result was asked for has ended as ``failed`` or ``cancelled``."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} ({job.task}) has ended as {job.state}: {job.error or 'without an error'}")
        self.job = job


@dataclass(frozen=True)
class WrongValue:
    """A value of the request that the server does not accept."""

    #: A JSON pointer into the request, such as ``/priority``, or the name of a parameter.
    path: str
    message: str


class ProblemError(TurnwiseError):
    """The server's answer to a request that it did not carry out (RFC 9457)."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after: float | None = None) -> None:
        #: The HTTP status.
        self.status = status
        #: ``urn:turnwise:`` and a word, by which programs tell problems apart.
        self.type = str(problem.get("type", "about:blank"))
        self.title = str(problem.get("title", ""))
        #: For a person: what is wrong, and what to do.
        self.detail = str(problem.get("detail", ""))
        #: The values that are wrong, with their places.
        self.errors = [WrongValue(str(e.get("path", "")), str(e.get("message", ""))) for e in problem.get("errors", [])]
        #: The id of the job that is in the way, such as the holder of a unique key.
        self.job: str | None = problem.get("job")
        #: After how many seconds the same request may be sent again, where the server says so.
        self.retry_after = retry_after
        super().__init__(f"{status}: {self.detail or self.title or 'no explanation'}")


class Invalid(ProblemError):
    """The request cannot be understood, or a value in it is not allowed."""


class Unauthorized(ProblemError):
    """A token is needed, or this one is unknown, expired or revoked."""


class Forbidden(ProblemError):
    """The token may not do this."""


class NotFound(ProblemError):
    """There is no such job or name, or the token may not see it."""


class Conflict(ProblemError):
    """What is there does not allow it: a unique key is held (``job`` has the holder), or the job's state is another one."""


class Busy(ProblemError):
    """Too much is asked at a time, or the database is out of reach; ``retry_after`` says when to ask again."""


class ServerError(ProblemError):
    """Something is broken at the server."""


_BY_STATUS: dict[int, type[ProblemError]] = {401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 408: Busy, 429: Busy, 503: Busy}


def problem(status: int, body: bytes, retry_after: str | None) -> ProblemError:
    """The error for an answer with this status. A proxy's own page is no JSON, and says nothing."""
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    known = read if isinstance(read, dict) else {"detail": body[:200].decode(errors="replace")}
    kind = _BY_STATUS.get(status) or (Invalid if status < 500 else Busy if status in (502, 504) else ServerError)
    wait = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
    return kind(status, known, wait)

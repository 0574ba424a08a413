"""The calls of the API for submitting and reading: what is sent, and what the answer means. Both clients send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from . import _context, _ids
from .errors import Invalid
from .job import Job, LogLine, Request, Submitted, moment, written

T = TypeVar("T")


@dataclass
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[Any], T]
    body: str | None = None
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    #: How long the server may wait before it answers.
    wait: float = 0.0


class Submits:
    """Requests with ids, which make it safe to send them again."""

    def __init__(self, requests: Iterable[Request], offset: float, idempotency_key: str | None, single: bool) -> None:
        self._said = [request.wire() for request in requests]
        self._single = single
        self._headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
        trace = _context.traceparent()
        # With an idempotency key the body has to be the same in each try, also of another process: it names no ids.
        self._ours = [] if idempotency_key is not None else [said for said in self._said if "id" not in said]
        for said in self._said:
            if trace is not None and "traceparent" not in said:
                said["traceparent"] = trace
        self.name(offset)

    def name(self, offset: float) -> None:
        """Gives ids to the jobs that the caller has given none."""
        self._named = set()
        for said in self._ours:
            said["id"] = _ids.new(offset)
            self._named.add(said["id"])

    def renamed(self, error: Invalid, offset: float | None) -> bool:
        """Whether the server refused an id of ours because this machine's clock is ahead: then they have new ones by now, by the server's clock."""
        if not offset or not self._ours or not any(wrong.path.endswith("/id") for wrong in error.errors):
            return False
        self.name(offset)
        return True

    def call(self) -> Call[list[Submitted]]:
        if self._single:
            return Call("POST", "/jobs", lambda answer: [self._told(self._said[0], answer)], written(self._said[0]), headers=self._headers)
        return Call("POST", "/jobs/batch", self._told_all, written({"jobs": self._said}), headers=self._headers)

    def _told_all(self, answer: Any) -> list[Submitted]:
        return [self._told(said, one) for said, one in zip(self._said, answer["jobs"])]

    def _told(self, said: dict[str, Any], answer: Any) -> Submitted:
        # An id of this call that is there already was stored by an earlier try of it, whose answer was lost.
        ours = said.get("id") == answer["id"] and answer["id"] in self._named
        return Submitted(answer["id"], answer["new"] or (ours and answer["duplicate"] is None), answer["duplicate"])


def job(id: str) -> Call[Job]:
    return Call("GET", f"/jobs/{quote(id, safe='')}", Job.read)


def wait(id: str, seconds: float) -> Call[Job]:
    # The server waits a minute at most; half of that leaves room for proxies.
    span = min(30.0, max(0.0, seconds))
    whole = f"{int(span)}s" if span >= 9 else f"{int(span * 1000)}ms"
    return Call("GET", f"/jobs/{quote(id, safe='')}", Job.read, params={"wait": whole}, wait=span)


def cancel(id: str) -> Call[str]:
    return Call("POST", f"/jobs/{quote(id, safe='')}/cancel", lambda answer: str(answer["decided"]))


def log(id: str, after: str | None) -> Call[tuple[list[LogLine], str | None]]:
    def read(answer: Any) -> tuple[list[LogLine], str | None]:
        return [LogLine(moment(line["at"]), line["level"], line["text"], line["run"]) for line in answer["lines"]], answer["next"]

    return Call("GET", f"/jobs/{quote(id, safe='')}/log", read, params={} if after is None else {"after": after})


def jobs(cursor: str | None, filters: dict[str, str | Sequence[str] | int]) -> Call[tuple[list[Job], str | None]]:
    params = {name: value if isinstance(value, str) else str(value) if isinstance(value, int) else ",".join(value) for name, value in filters.items()}
    if cursor is not None:
        params["cursor"] = cursor
    return Call("GET", "/jobs", lambda answer: ([Job.read(one) for one in answer["jobs"]], answer["next"]), params=params)


def answer(body: bytes) -> Any:
    return json.loads(body) if body else None

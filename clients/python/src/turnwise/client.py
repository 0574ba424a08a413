"""Submits jobs, waits for them, reads and cancels them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from . import _calls
from ._backoff import Backoff
from ._calls import Call, Submits
from ._server import Server, ahead
from .errors import Busy, Conflict, Invalid, JobFailed, TurnwiseError, Unreachable, problem
from .job import Job, LogLine, Options, Request, Submitted, request

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .task import Task

T = TypeVar("T")

#: An answer is expected within this time, and what the server may wait.
_PATIENCE = 30.0


class _Tries:
    """Whether a call is sent again after an error, and when."""

    def __init__(self, retry_for: float) -> None:
        self._until = time.monotonic() + retry_for
        self._backoff = Backoff()

    def wait(self, error: Exception) -> float:
        """How long to wait; raises the error if the time for tries is over, or another try would not help."""
        if isinstance(error, httpx.TransportError):
            pause = self._backoff.next()
            if time.monotonic() + pause > self._until:
                raise Unreachable(f"no answer from the server: {error or type(error).__name__}") from error
            return pause
        # A conflict that passes: the first try of the same idempotency key is still worked on.
        if isinstance(error, Busy) or isinstance(error, Conflict) and error.retry_after is not None:
            pause = self._backoff.next(error.retry_after)
            if time.monotonic() + pause <= self._until:
                return pause
        raise error


class _Asking:
    """What both clients share: the address, and the server's clock."""

    def __init__(self, server: str | None, token: str | None, ca: str | None, plain_http: bool, retry_for: float) -> None:
        self._server = Server.named(server, token, ca, plain_http)
        self._retry_for = retry_for
        self._offset = 0.0

    def _options(self, call: Call[Any]) -> dict[str, Any]:
        headers = dict(call.headers)
        if call.body is not None:
            headers["content-type"] = "application/json"
        content = None if call.body is None else call.body.encode()
        return {"content": content, "params": call.params or None, "headers": headers, "timeout": _PATIENCE + call.wait}

    def _read(self, call: Call[T], response: httpx.Response) -> T:
        offset = ahead(response, time.time())
        if offset is not None:
            self._offset = offset
        if response.is_success:
            return call.read(_calls.answer(response.content))
        raise problem(response.status_code, response.content, response.headers.get("retry-after"))


class Turnwise(_Asking):
    """A server of Turnwise, for code that is not async. May be used from several threads.

    What is not named comes from ``TURNWISE_SERVER``, ``TURNWISE_TOKEN`` and ``TURNWISE_SERVER_CA``. A call whose answer is lost, or that the
    server is too busy for, is sent again for `retry_for` seconds; a submit is recognised and stored once.
    """

    def __init__(
        self, server: str | None = None, token: str | None = None, *, ca: str | None = None, plain_http: bool = False,
        retry_for: float = 30.0, transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        super().__init__(server, token, ca, plain_http, retry_for)
        self._http = httpx.Client(**self._server.options(), transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _ask(self, call: Call[T]) -> T:
        tries = _Tries(self._retry_for)
        while True:
            try:
                return self._read(call, self._http.request(call.method, call.path, **self._options(call)))
            except (httpx.TransportError, TurnwiseError) as error:
                time.sleep(tries.wait(error))

    def _submit(self, submits: Submits) -> list[Submitted]:
        try:
            return self._ask(submits.call())
        except Invalid as error:
            if not submits.renamed(error, self._offset):
                raise
            return self._ask(submits.call())

    def submit(
        self, job: Request | Task[Any, Any] | str, args: Any = None, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> Submitted:
        """Stores a job: ``submit("send", {"to": "ann"}, group="acme")``. When this returns, it survives a crash."""
        return self._submit(Submits([request(job, args, options)], self._offset, idempotency_key, True))[0]

    def submit_all(self, jobs: Iterable[Request], *, idempotency_key: str | None = None) -> list[Submitted]:
        """Stores all jobs or none, at most 10,000. They may wait for one another by ``as_`` and ``after``."""
        return self._submit(Submits(jobs, self._offset, idempotency_key, False))

    def job(self, id: str) -> Job:
        """The job as it is."""
        return self._ask(_calls.job(id))

    def wait(self, id: str, timeout: float | None = None) -> Job:
        """The job once it has ended, well or not. ``TimeoutError`` if it has not after so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30.0 if until is None else until - time.monotonic()
            job = self._ask(_calls.wait(id, left))
            if job.ended:
                return job
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {id} is {job.state} after {timeout} s")

    def result(self, id: str, timeout: float | None = None) -> Any:
        """What the task returned, once it has ended. :class:`JobFailed` if it did not succeed."""
        job = self.wait(id, timeout)
        if job.state != "success":
            raise JobFailed(job)
        return job.result

    def cancel(self, id: str) -> str:
        """Ends a waiting job (``cancelled``), or asks the node or worker that runs it to stop (``cancel_requested``)."""
        return self._ask(_calls.cancel(id))

    def log(self, id: str) -> list[LogLine]:
        """The last lines of the job's log, 1,000 at most."""
        return self._ask(_calls.log(id, None))[0]

    def jobs(self, **filters: str | Sequence[str] | int) -> Iterator[Job]:
        """Jobs, newest first, page by page: ``jobs(state=["stuck", "failed"], group="acme")``, or ``jobs(filter="args.pages>10")``."""
        cursor = None
        while True:
            page, cursor = self._ask(_calls.jobs(cursor, filters))
            yield from page
            if cursor is None:
                return


class AsyncTurnwise(_Asking):
    """As :class:`Turnwise`, for async code."""

    def __init__(
        self, server: str | None = None, token: str | None = None, *, ca: str | None = None, plain_http: bool = False,
        retry_for: float = 30.0, transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        super().__init__(server, token, ca, plain_http, retry_for)
        self._http = httpx.AsyncClient(**self._server.options(), transport=transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, call: Call[T]) -> T:
        tries = _Tries(self._retry_for)
        while True:
            try:
                return self._read(call, await self._http.request(call.method, call.path, **self._options(call)))
            except (httpx.TransportError, TurnwiseError) as error:
                await asyncio.sleep(tries.wait(error))

    async def _submit(self, submits: Submits) -> list[Submitted]:
        try:
            return await self._ask(submits.call())
        except Invalid as error:
            if not submits.renamed(error, self._offset):
                raise
            return await self._ask(submits.call())

    async def submit(
        self, job: Request | Task[Any, Any] | str, args: Any = None, *, idempotency_key: str | None = None, **options: Unpack[Options]
    ) -> Submitted:
        """As :meth:`Turnwise.submit`."""
        return (await self._submit(Submits([request(job, args, options)], self._offset, idempotency_key, True)))[0]

    async def submit_all(self, jobs: Iterable[Request], *, idempotency_key: str | None = None) -> list[Submitted]:
        """As :meth:`Turnwise.submit_all`."""
        return await self._submit(Submits(jobs, self._offset, idempotency_key, False))

    async def job(self, id: str) -> Job:
        """The job as it is."""
        return await self._ask(_calls.job(id))

    async def wait(self, id: str, timeout: float | None = None) -> Job:
        """As :meth:`Turnwise.wait`."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 30.0 if until is None else until - time.monotonic()
            job = await self._ask(_calls.wait(id, left))
            if job.ended:
                return job
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"job {id} is {job.state} after {timeout} s")

    async def result(self, id: str, timeout: float | None = None) -> Any:
        """As :meth:`Turnwise.result`."""
        job = await self.wait(id, timeout)
        if job.state != "success":
            raise JobFailed(job)
        return job.result

    async def cancel(self, id: str) -> str:
        """As :meth:`Turnwise.cancel`."""
        return await self._ask(_calls.cancel(id))

    async def log(self, id: str) -> list[LogLine]:
        """As :meth:`Turnwise.log`."""
        return (await self._ask(_calls.log(id, None)))[0]

    async def jobs(self, **filters: str | Sequence[str] | int) -> AsyncIterator[Job]:
        """As :meth:`Turnwise.jobs`."""
        cursor = None
        while True:
            page, cursor = await self._ask(_calls.jobs(cursor, filters))
            for one in page:
                yield one
            if cursor is None:
                return

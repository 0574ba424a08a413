"""How the worker asks a server: again and again until it answers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

from ._backoff import Backoff
from ._server import Server, ahead
from .errors import Busy, Conflict, NotFound, ServerError, TurnwiseError, problem

if TYPE_CHECKING:
    from typing_extensions import Self

#: Takes, settles, notes and leaving, each on its own connection; a newer take may meet an older one.
_LIMITS = httpx.Limits(max_connections=16, max_keepalive_connections=8, keepalive_expiry=60)
#: An answer is expected within this time, and what the server may wait.
_PATIENCE = 20.0


class Lost(TurnwiseError):
    """This life of the worker is over: its jobs are given to others."""


class Asking:
    """The connections to the server, and for which life of the worker it is asked."""

    def __init__(self, server: Server) -> None:
        self._server = server
        #: The id of the present life.
        self.worker = ""
        #: By how many seconds the server's clock is ahead.
        self.offset = 0.0

    async def __aenter__(self) -> Self:
        self._http = httpx.AsyncClient(**self._server.options(), limits=_LIMITS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: str, wait: float = 0.0) -> Any:
        """Asks once."""
        response = await self._http.post(
            f"/workers{path}", content=body.encode(), headers={"content-type": "application/json"}, timeout=httpx.Timeout(_PATIENCE + wait)
        )
        offset = ahead(response, time.time())
        if offset is not None:
            self.offset = offset
        if response.is_success:
            return json.loads(response.content)
        raise problem(response.status_code, response.content, response.headers.get("retry-after"))

    async def ask(self, verb: str, body: Callable[[], str], wait: float = 0.0) -> Any:
        """Asks until there is an answer. The body is made anew for each try. Raises :class:`Lost`, or what another try would not change."""
        backoff = Backoff()
        while True:
            try:
                return await self.post(f"/{self.worker}/{verb}", body(), wait)
            except (Conflict, NotFound) as error:
                raise Lost(error.detail or str(error)) from error
            except (Busy, ServerError) as error:
                pause = backoff.next(error.retry_after)
            except httpx.TransportError:
                pause = backoff.next()
            await asyncio.sleep(pause)

"""Running the code of a task, and what its end means."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any

from . import _context, outcome
from .ctx import MAX_LINE_BYTES, AsyncCtx, Ctx, Surroundings

if TYPE_CHECKING:
    from .task import Task


async def run_async(task: Task[Any, Any], said: dict[str, Any], surroundings: Surroundings) -> str:
    """Runs an async task; how it ended, as JSON. What it sets in its context is gone afterwards with the asyncio task that it runs in."""
    ctx = AsyncCtx(said, surroundings)
    _context.current.set(ctx)
    try:
        args = said["args"]
        value = await task.function(ctx, args if task.decode is None else task.decode(args))
        return outcome.DONE if value is None else outcome.returned(value)
    except BaseException as error:
        return failed(error, surroundings)


def run_here(task: Task[Any, Any], said: dict[str, Any], surroundings: Surroundings) -> str:
    """Runs a task that is not async in this thread; how it ended, as JSON."""
    ctx = Ctx(said, surroundings)
    token = _context.current.set(ctx)
    try:
        value = task.function(ctx, task.arguments(said["args"]))
        return outcome.DONE if value is None else outcome.returned(value)
    except BaseException as error:
        return failed(error, surroundings)
    finally:
        _context.current.reset(token)


def failed(error: BaseException, surroundings: Surroundings) -> str:
    """How a run ended whose code raised this."""
    reason = surroundings.reason()
    if isinstance(error, (asyncio.CancelledError, outcome.Interrupted)) and reason is not None:
        return stopped(reason)
    if isinstance(error, (outcome.Ending, outcome.Suspended)):
        return outcome.raised(error)
    if reason == "timed_out":
        return outcome.TIMED_OUT
    # The end of a traceback says most.
    said = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-MAX_LINE_BYTES // 2 :]
    surroundings.line("error", outcome.clean(said, MAX_LINE_BYTES))
    return outcome.raised(error)


def stopped(reason: str) -> str:
    """How a run ended that has stopped because it was told to."""
    return {"cancelled": outcome.CANCELLED, "timed_out": outcome.TIMED_OUT}.get(reason, outcome.INTERRUPTED)

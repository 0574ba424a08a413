"""Tasks that other processes have to find."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from turnwise import AsyncCtx, Ctx, task

log = logging.getLogger("tasks")


@dataclass
class Pair:
    a: int
    b: int


@task("product", stoppable=True)
def product(ctx: Ctx, args: Pair) -> dict[str, int]:
    return ctx.step("sum", lambda: {"sum": args.a + args.b})


def _talk(ctx: Ctx | AsyncCtx) -> None:
    ctx.log("hello")
    ctx.log("café ☕", "warn")
    log.debug("from logging")
    ctx.log(f"trace {ctx.traceparent}")
    ctx.progress(3, 10, "pages")


@task("talk")
def talk(ctx: Ctx, args: None) -> None:
    _talk(ctx)
    ctx.wait()
    ctx.check()


@task("talk-in-a-process", stoppable=True)
def talk_in_a_process(ctx: Ctx, args: None) -> None:
    _talk(ctx)
    ctx.wait()
    ctx.check()


@task("talk-async")
async def talk_async(ctx: AsyncCtx, args: None) -> None:
    _talk(ctx)
    await ctx.until_cancelled()


@task("wait-sync")
def wait_sync(ctx: Ctx, args: None) -> None:
    ctx.log("begun")
    while True:
        ctx.check()
        ctx.wait(60)


@task("wait-async")
async def wait_async(ctx: AsyncCtx, args: None) -> None:
    ctx.log("begun")
    await ctx.until_cancelled()


@task("never-ends", stoppable=True)
def never_ends(ctx: Ctx, args: None) -> None:
    """Neither looks whether it should stop nor sleeps."""
    ctx.log("begun")
    while True:
        time.monotonic()


@task("exits", stoppable=True, retry="none")
def exits(ctx: Ctx, args: int) -> None:
    import os

    os._exit(args)

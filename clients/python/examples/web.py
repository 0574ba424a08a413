"""A web application that submits jobs, and runs them in the same process.

    pip install turnwise fastapi uvicorn
    TURNWISE_SERVER=http://127.0.0.1:8080 uvicorn web:app

It stops gracefully with uvicorn: requests first, then the jobs that run, and what has not begun goes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from turnwise import AsyncCtx, AsyncTurnwise, JobLogHandler, NotFound, Worker, task

log = logging.getLogger("web")
log.setLevel(logging.INFO)
log.addHandler(JobLogHandler())


class Report(BaseModel):
    customer: str
    pages: int


@task("report", retry="exponential:1s,3", timeout="5m")
async def report(ctx: AsyncCtx, args: Report) -> dict[str, Any]:
    rows = await ctx.step("read", lambda: args.pages * 100)
    for page in range(args.pages):
        await asyncio.sleep(0.01)
        ctx.progress(page + 1, args.pages, "pages")
    log.info("%d rows for %s", rows, args.customer)
    return {"rows": rows}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncTurnwise() as turnwise, Worker(tasks=[report], slots=16, stop_timeout="20s"):
        app.state.turnwise = turnwise
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports", status_code=202)
async def order(wanted: Report) -> dict[str, str]:
    # A customer that orders a thousand reports waits for them; others get their turn meanwhile.
    told = await app.state.turnwise.submit(report, wanted, group=wanted.customer)
    return {"id": told.id}


@app.get("/reports/{id}")
async def look(id: str) -> dict[str, Any]:
    try:
        job = await app.state.turnwise.job(id)
    except NotFound:
        raise HTTPException(404) from None
    return {"state": job.state, "result": job.result, "progress": job.progress and job.progress.done}

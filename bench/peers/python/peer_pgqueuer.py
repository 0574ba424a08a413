"""pgqueuer."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

import driver


def payload(id):
    return json.dumps({"id": id, "pad": driver.PAD}).encode()


class Pgqueuer:
    batch = 10_000

    def settings(self, tuned):
        return {"throughput": "batch_size 500, uvloop", "waiting": "batch_size 10", "callers": "enqueue, a pool of connections"}[tuned]

    @asynccontextmanager
    async def opened(self, url, tuned, callers):
        self.url = url
        self.batch_size = 10 if tuned == "waiting" else 500
        if tuned == "callers":
            pool = await asyncpg.create_pool(url, min_size=callers, max_size=callers)
            self.queries = Queries(AsyncpgPoolDriver(pool))
        else:
            self.queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
        yield

    async def setup(self):
        await self.queries.install()

    async def submit(self, id):
        await self.queries.enqueue("noop", payload(id))

    async def bulk(self, ids):
        await self.queries.enqueue(["noop"] * len(ids), [payload(id) for id in ids], [0] * len(ids))

    async def start(self, ran):
        queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(self.url)))

        @queuer.entrypoint("noop")
        async def noop(job):
            ran(json.loads(job.payload)["id"])

        self.looking = await asyncpg.connect(self.url)
        self.worker = asyncio.create_task(queuer.run(batch_size=self.batch_size, dequeue_timeout=timedelta(seconds=30)))

    async def stored(self):
        return await self.looking.fetchval("select not exists (select from pgqueuer)")


driver.main(Pgqueuer())

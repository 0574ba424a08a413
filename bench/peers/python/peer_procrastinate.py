"""procrastinate."""

import asyncio
import os
from contextlib import asynccontextmanager

import procrastinate

import driver


class Procrastinate:
    batch = 1_000

    def settings(self, tuned):
        ends = "kept" if self.kept else "deleted"
        return {"throughput": f"concurrency 20, finished jobs {ends}", "waiting": "concurrency 10", "callers": "defer_async"}[tuned]

    @property
    def kept(self):
        return os.environ.get("HISTORY") == "keep"

    @asynccontextmanager
    async def opened(self, url, tuned, callers):
        self.concurrency = 10 if tuned == "waiting" else 20
        size = callers if tuned == "callers" else 20
        self.app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=2, max_size=size))
        self.task = self.app.task(name="noop")(self.noop)
        async with self.app.open_async():
            yield

    async def noop(self, id, pad):
        self.ran(id)

    async def setup(self):
        await self.app.schema_manager.apply_schema_async()

    async def submit(self, id):
        await self.task.defer_async(id=id, pad=driver.PAD)

    async def bulk(self, ids):
        await self.task.batch_defer_async(*[{"id": id, "pad": driver.PAD} for id in ids])

    async def start(self, ran):
        self.ran = ran
        self.worker = asyncio.create_task(self.app.run_worker_async(
            concurrency=self.concurrency, wait=True, install_signal_handlers=False,
            delete_jobs="never" if self.kept else "successful"))

    async def stored(self):
        row = await self.app.connector.execute_query_one_async(
            "select not exists (select from procrastinate_jobs where status in ('todo', 'doing')) as stored")
        return row["stored"]


driver.main(Procrastinate())

"""Turnwise's own client for Python: a server of this repository on the database, and a worker that asks it over HTTP."""

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

import driver

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "clients/python/src"))

from turnwise import AsyncTurnwise, Request, Worker, task  # noqa: E402

TURNWISE = os.environ["TURNWISE"]
#: As for the Rust library: jobs are spread over so many groups, which take turns.
GROUPS = 1_000
SLOTS, BUFFER = 100, 900
# It ends with the driver, which ends without a word: then nothing holds the other end of its input any more.
SERVE = '"$@" </dev/null & pid=$!; read _; kill $pid; wait $pid'


def request(id):
    return Request("noop", {"id": id, "pad": driver.PAD}, {"group": f"group-{id % GROUPS}"})


class TurnwisePython:
    batch = 10_000

    def settings(self, tuned):
        return {"throughput": f"{SLOTS} slots, {BUFFER} buffered, uvloop, {GROUPS:,} groups", "waiting": f"{SLOTS} slots, uvloop",
                "callers": "submit, one client"}[tuned]

    @asynccontextmanager
    async def opened(self, url, tuned, callers):
        self.url, self.tuned = url, tuned
        if sys.argv[1] == "setup":
            yield
            return
        history = ["--retention", "0"] if os.environ.get("HISTORY", "delete") == "delete" else ["--retention", "7d"]
        subprocess.run([TURNWISE, "--database", url, "installation", "set", *history], check=True, stdout=subprocess.DEVNULL)
        serve = [TURNWISE, "--database", url, "serve", "--name", "bench", "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(["sh", "-c", SERVE, "sh", *serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        line = server.stdout.readline()
        if "http://" not in line:
            sys.exit(f"the server is not ready: {line!r}")
        self.server = "http://" + line.split("http://")[1].strip()
        async with AsyncTurnwise(self.server) as self.turnwise:
            yield

    async def setup(self):
        subprocess.run([TURNWISE, "--database", self.url, "migrate"], check=True, stdout=subprocess.DEVNULL)

    async def submit(self, id):
        await self.turnwise.submit(request(id))

    async def bulk(self, ids):
        await self.turnwise.submit_all([request(id) for id in ids])

    async def start(self, ran):
        @task("noop")
        async def noop(ctx, args):
            ran(args["id"])

        self.looking = await asyncpg.connect(self.url)
        worker = Worker(self.server, tasks=[noop], slots=SLOTS, buffer=0 if self.tuned == "waiting" else BUFFER)
        self.worker = asyncio.create_task(worker.serve())

    async def stored(self):
        return await self.looking.fetchval("select not exists (select from turnwise.job)")


driver.main(TurnwisePython())

"""What every peer written in Python is asked to do; the verbs, the job and the answers are those of the Rust drivers.

A peer has: batch, settings(tuned), opened(url, tuned, callers) as an async context, setup(), submit(id), bulk(ids),
start(ran) and stored().
"""

import asyncio
import json
import logging
import os
import sys
import time

import uvloop

PAD = "x" * 80
STRETCH = 10_000
USAGE = "usage: setup | bulk N | fill N | submit N CALLERS | drain N [SECS] | latency N | idle SECS"

now = time.perf_counter
marks = []
starts = {}
count = 0


def ran(id):
    """Called by each handler when it starts."""
    global count
    count += 1
    if count == 1 or count % STRETCH == 0:
        marks.append(now())
    if count < 20_000:
        starts[id] = now()


async def in_batches(peer, jobs):
    for first in range(0, jobs, peer.batch):
        await peer.bulk(range(first, min(jobs, first + peer.batch)))


async def bulk(peer, jobs):
    begun = now()
    await in_batches(peer, jobs)
    return {"jobs": jobs, "per_second": jobs / (now() - begun)}


async def submit(peer, jobs, callers):
    # The first call of some of them looks things up for all later ones.
    await peer.submit(jobs)
    ids = iter(range(jobs))

    async def caller():
        for id in ids:
            await peer.submit(id)

    begun = now()
    await asyncio.gather(*[caller() for _ in range(callers)])
    return {"jobs": jobs, "per_second": jobs / (now() - begun)}


async def drain(peer, jobs, limit):
    """From the start of the worker to the last stored end; after `limit` seconds it is told how far it came."""
    begun = now()
    await peer.start(ran)
    while count < jobs and now() - begun < limit:
        await asyncio.sleep(0.002)
    while count >= jobs and now() - begun < limit and not await peer.stored():
        await asyncio.sleep(0.005)
    seconds = now() - begun
    done = min(count, jobs)
    first = last = None
    if len(marks) >= 3:
        first, last = STRETCH / (marks[1] - marks[0]), STRETCH / (marks[-1] - marks[-2])
    return {"jobs": done, "cut": seconds >= limit, "per_second": done / seconds,
            "first_10k_per_second": first, "last_10k_per_second": last}


async def wait_for(jobs, seconds):
    begun = now()
    while count < jobs:
        if now() - begun > seconds:
            raise TimeoutError(f"{count} of {jobs} jobs had started after {seconds} s")
        await asyncio.sleep(0.002)


async def latency(peer, jobs):
    """One job each 50 ms: from the acknowledged submit to the start of the handler."""
    await peer.start(ran)
    await peer.submit(jobs)
    await wait_for(1, 20)
    await asyncio.sleep(1)
    begun = now()
    submitted = []
    for id in range(jobs):
        await asyncio.sleep(max(0, begun + id * 0.05 - now()))
        await peer.submit(id)
        submitted.append(now())
    await wait_for(jobs + 1, 10)
    # A handler that starts before its submitter hears of it counts as 0.
    waits = sorted(max(0.0, starts[id] - at) * 1e3 for id, at in enumerate(submitted))
    p50, p95, p99 = (waits[max(1, -(-len(waits) * hundredths // 100)) - 1] for hundredths in (50, 95, 99))
    return {"jobs": jobs, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}


async def idle(peer, seconds):
    await peer.start(ran)
    await asyncio.sleep(seconds)
    return {}


async def told(peer, verb, n, second):
    if verb == "setup":
        await peer.setup()
        return {}
    if verb == "fill":
        await in_batches(peer, n)
        return {"jobs": n}
    if verb in ("bulk", "latency", "idle"):
        return await {"bulk": bulk, "latency": latency, "idle": idle}[verb](peer, n)
    if verb == "submit":
        return await submit(peer, n, second or 50)
    return await drain(peer, n, second or 600)


async def run(peer):
    words = sys.argv[1:]
    if not words or words[0] not in ("setup", "bulk", "fill", "submit", "drain", "latency", "idle"):
        sys.exit(USAGE)
    verb, n, second = words[0], *(int(word) for word in (words[1:] + ["0", "0"])[:2])
    tuned = {"latency": "waiting", "idle": "waiting", "submit": "callers"}.get(verb, "throughput")
    async with peer.opened(os.environ["DATABASE_URL"], tuned, second or 50):
        answer = await told(peer, verb, n, second)
        print(json.dumps(answer | {"verb": verb, "settings": peer.settings(tuned)}), flush=True)
        # Not every worker can be asked to stop, and what it was measured for is over.
        os._exit(0)


def main(peer):
    logging.disable(logging.WARNING)
    uvloop.run(run(peer))

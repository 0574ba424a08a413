"""A worker whose tasks keep others from running. Its arguments: the server's address."""

import ctypes
import sys
import time

from turnwise import AsyncCtx, Ctx, Worker, task


@task("hog")
def hog(ctx: Ctx, args: float) -> str:
    # Sleeps in C without giving Python's lock back: no other thread of this process runs.
    ctypes.PyDLL(None).usleep(int(args * 1_000_000))
    return "through"


@task("hog-async")
async def hog_async(ctx: AsyncCtx, args: float) -> str:
    ctypes.PyDLL(None).usleep(int(args * 1_000_000))
    return "through"


@task("block-async")
async def block_async(ctx: AsyncCtx, args: float) -> None:
    print("blocking")
    time.sleep(args)


if __name__ == "__main__":
    Worker(sys.argv[1], tasks=[hog, hog_async, block_async], lease=5, slots=2).run()

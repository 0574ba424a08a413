"""A worker whose tasks wait until they are stopped, and say why. Its arguments: the server's address."""

import sys

from turnwise import Ctx, Worker, task


@task("patient")
def patient(ctx: Ctx, args: str) -> str:
    print("begun")
    ctx.wait()
    print(ctx.reason)
    ctx.check()
    return args


@task("never-ends", stoppable=True)
def never_ends(ctx: Ctx, args: None) -> None:
    while True:
        pass


if __name__ == "__main__":
    Worker(sys.argv[1], tasks=[patient, never_ends], lease=5, stop_timeout=60).run()

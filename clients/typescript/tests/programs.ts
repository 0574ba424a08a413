//! Programs that tests start in processes of their own: node programs.js NAME URL

import { task, Turnwise, Worker } from "turnwise";

const [, , name, url = ""] = process.argv;
const turnwise = new Turnwise({ url });

/** Holds the event loop. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const programs: Record<string, () => Promise<void>> = {
  /** Runs a job that blocks this thread for as long as it is told. */
  async blocks() {
    const blocks = task("blocks", ({ ms }: { ms: number }, ctx) => {
      block(ms);
      return ctx.fence;
    });
    await new Worker(turnwise, [blocks], { lease: process.env.LEASE ?? "30s" }).run();
  },

  /** Runs a job that says when it has begun, and ends when it is asked to stop or after a while. */
  async waits() {
    const waits = task("waits", async ({ ms }: { ms: number }, ctx) => {
      console.log(`begun ${ctx.id}`);
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        ctx.signal.addEventListener("abort", () => {
          clearTimeout(timer);
          reject(ctx.signal.reason);
        });
      });
      console.log(`ended ${ctx.id}`);
      return ctx.fence;
    });
    const worker = new Worker(turnwise, [waits], { lease: process.env.LEASE ?? "30s", drain: process.env.DRAIN ?? "20s" });
    void worker.start().then(() => console.log("ready"));
    await worker.run();
    console.log("left");
  },
};

await programs[name!]!();

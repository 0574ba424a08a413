// Submits no-op jobs, and measures how long one worker process takes from its start until the last end is stored.
import { task, Turnwise, Worker } from "turnwise";

const [url, jobs = "50000", slots = "500", buffer = "1500"] = process.argv.slice(2);
const count = Number(jobs);
const BATCH = 10_000;

const turnwise = new Turnwise({ url, token: process.env.TURNWISE_TOKEN });
let ran = 0;
let all;
const done = new Promise((resolve) => (all = resolve));
const noop = task("bench-noop", () => {
  if (++ran === count) all();
});

const begun = performance.now();
for (let next = 0; next < count; next += BATCH) {
  await turnwise.submitMany(Array.from({ length: Math.min(BATCH, count - next) }, (_, n) => noop.job({ n: next + n })));
}
const submitted = performance.now();
const worker = new Worker(turnwise, [noop], { slots: Number(slots), buffer: Number(buffer) });
await worker.start();
await done;
// It leaves when all ends are answered.
await worker.stop();
const ended = performance.now();
const rate = (ms) => Math.round((count / ms) * 1_000);
console.log(JSON.stringify({ client: "typescript", jobs: count, ran, slots: Number(slots), buffer: Number(buffer), submits_per_second: rate(submitted - begun), per_second: rate(ended - submitted) }));

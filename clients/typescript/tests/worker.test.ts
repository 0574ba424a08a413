import assert from "node:assert/strict";
import { test } from "node:test";
import { cancelled, fail, next, snooze, task, type Ctx } from "turnwise";
import { Gate, place } from "./support.js";

test("a submitted job is run, and its result is there", async (t) => {
  const { turnwise, work } = await place(t);
  const add = task("add", ({ a, b }: { a: number; b: number }) => a + b);
  await work([add]);
  const { id } = await turnwise.submit(add, { a: 1, b: 2 });
  const job = await turnwise.wait(id);
  assert.deepEqual([job.state, job.result], ["success", 3]);
});

test("a worker registers with its language, its client, and the facts of its tasks", async (t) => {
  const { server, work } = await place(t);
  const mail = task("mail", { retry: "durations:1s", timeout: "30s", onExhausted: "apologise", secret: ["/card"] }, () => {});
  await work([mail, task("noop", () => {})], { slots: 3, buffer: 2, queues: ["mail"], lease: "10s", name: "post" });
  const [facts] = server.workers;
  assert.deepEqual(facts!.tasks, { mail: { retry: "durations:1s", timeout: "30s", on_exhausted: "apologise", secret: ["/card"] }, noop: {} });
  assert.deepEqual([facts!.protocol, facts!.slots, facts!.buffer, facts!.queues, facts!.lease_ms, facts!.name], [1, 3, 2, ["mail"], 10_000, "post"]);
  assert.match(facts!.language, /^node \d+\./);
  assert.match(facts!.client, /^turnwise-typescript \d/);
});

test("a job that fails is tried again by its policy, and then goes on as another task", async (t) => {
  const { server, turnwise, work } = await place(t);
  const attempts: number[] = [];
  const flaky = task("flaky", { retry: "durations:1h", onExhausted: "sorry" }, (_: { n: number }, ctx) => {
    attempts.push(ctx.attempt);
    throw new Error("no", { cause: new TypeError("because") });
  });
  await work([flaky, task("sorry", ({ n }) => `sorry for ${n}`)]);
  const { id } = await turnwise.submit(flaky, { n: 7 });
  await server.until(id, "stuck");
  assert.equal((await turnwise.job(id)).error, "no: TypeError: because");
  server.advance("1h");
  const job = await turnwise.wait(id);
  assert.deepEqual([job.state, job.result, attempts], ["success", "sorry for 7", [1, 2]]);
  assert.deepEqual(job.attempts.map(({ ending }) => ending), ["error", "error"]);
});

test("every end that a task can have reaches the server, returned and thrown", async (t) => {
  const { turnwise, work } = await place(t);
  const other = task("other", (args: string) => args);
  const ends: Record<string, () => unknown> = {
    fail: () => fail("never"),
    failThrown: () => {
      throw fail(new RangeError("never"));
    },
    cancelled: () => cancelled(),
    next: () => next(other.job("went on")),
    nothing: () => undefined,
    circular: () => {
      const circle: any = {};
      return (circle.self = circle);
    },
  };
  await work([task("ends", (how: string) => ends[how]!()), other]);
  const ended = async (how: string) => turnwise.wait((await turnwise.submit("ends", how)).id);
  const seen = await Promise.all(Object.keys(ends).map(ended));
  assert.deepEqual(seen.map(({ state }) => state), ["failed", "failed", "cancelled", "success", "success", "failed"]);
  assert.deepEqual(seen.map(({ error }) => error?.slice(0, 21)), ["never", "RangeError: never", undefined, undefined, undefined, "the result is no JSON"]);
  assert.deepEqual([seen[3]!.result, seen[3]!.task, seen[4]!.result], ["went on", "other", null]);
});

test("a snoozed job comes again after that time, and has spent no attempt", async (t) => {
  const { server, turnwise, work } = await place(t);
  let runs = 0;
  const nap = task("nap", (_: null, ctx) => (++runs === 1 ? snooze("1h") : ctx.attempt));
  await work([nap]);
  const { id } = await turnwise.submit(nap, null);
  await server.when(() => server.count("settle") === 1);
  await server.until(id, "waiting");
  server.advance("1h");
  assert.equal((await turnwise.wait(id)).result, 1);
});

test("a step runs once, whatever happens after, and a long sleep gives its slot back", async (t) => {
  const { server, turnwise, work } = await place(t);
  const ran: string[] = [];
  const long = task("long", { retry: "durations:1s" }, async (_: null, ctx: Ctx) => {
    const charge = await ctx.step("charge", () => {
      ran.push("charge");
      return { id: 7 };
    });
    ran.push(`run ${ctx.attempt}`);
    if (ctx.attempt === 1) throw new Error("after the step");
    await ctx.sleep("20ms");
    return charge.id;
  });
  await work([long]);
  const { id } = await turnwise.submit(long, null);
  await server.until(id, "stuck");
  server.advance("1s");
  assert.equal((await turnwise.wait(id)).result, 7);
  assert.deepEqual(ran, ["charge", "run 1", "run 2"]);
});

test("log lines and progress are with the job when it has ended", async (t) => {
  const { turnwise, work } = await place(t);
  const talk = task("talk", (_: null, ctx) => {
    for (let n = 0; n < 500; n++) ctx.log(`line ${n}`);
    ctx.log("x".repeat(10_000), "warn");
    ctx.progress(3.7, 10, "pages");
  });
  await work([talk]);
  const { id } = await turnwise.submit(talk, null);
  const job = await turnwise.wait(id);
  const { lines } = await turnwise.log(id);
  assert.deepEqual(job.progress, { done: 3, total: 10, text: "pages" });
  assert.deepEqual(lines.map(({ line }) => line), Array.from({ length: 501 }, (_, n) => n));
  assert.deepEqual([lines[499]!.text, lines[500]!.level, lines[500]!.text.length], ["line 499", "warn", 4096]);
});

test("a job that is cancelled while it runs is stopped at once, and ends as cancelled", async (t) => {
  const { turnwise, work } = await place(t);
  const begun = new Gate();
  const reasons: unknown[] = [];
  const endless = task("endless", async (_: null, ctx) => {
    begun.open();
    await new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
  });
  const polite = task("polite", async (_: null, ctx) => {
    begun.open();
    await new Promise<void>((resolve) => ctx.signal.addEventListener("abort", () => (reasons.push(ctx.signal.reason.reason), resolve())));
    return "tidied up";
  });
  // One slot: the take that hears of the cancel has no room for jobs.
  await work([endless, polite], { slots: 1 });
  for (const how of [endless, polite]) {
    const { id } = await turnwise.submit(how, null);
    await begun.opened;
    assert.equal((await turnwise.cancel(id)).decided, "cancel_requested");
    assert.equal((await turnwise.wait(id)).state, "cancelled");
  }
  assert.deepEqual(reasons, ["cancelled"]);
});

test("a task that does not stop is given up after its grace, and keeps its slot until it returns", async (t) => {
  const { server, turnwise, work } = await place(t, { grace: "40ms" });
  const gate = new Gate();
  const deaf = task("deaf", { timeout: "1h" }, () => gate.opened);
  const noop = task("noop", () => {});
  await work([deaf, noop], { slots: 1 });
  const { id } = await turnwise.submit(deaf, null);
  await server.until(id, "scheduled");
  await turnwise.cancel(id);
  assert.equal((await turnwise.wait(id)).state, "cancelled");
  const after = (await turnwise.submit(noop, null)).id;
  await server.until(after, "scheduled");
  assert.equal((await turnwise.job(after)).state, "scheduled", "its slot is not free");
  gate.open();
  assert.equal((await turnwise.wait(after)).state, "success");
});

test("a run is stopped when its time is over, and has failed", async (t) => {
  const { server, turnwise, work } = await place(t);
  const slow = task("slow", { timeout: "30ms", retry: "none" }, (_: null, ctx) => new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason))));
  await work([slow]);
  const { id } = await turnwise.submit(slow, null);
  const job = await turnwise.wait(id);
  assert.deepEqual([job.state, job.attempts[0]!.ending, server.fence(id)], ["failed", "timed out", 1]);
});

test("no more tasks run at a time than there are slots, and all jobs of a flood are run once", async (t) => {
  const { server, turnwise, work } = await place(t);
  let [now, most] = [0, 0];
  const ran = new Map<string, number>();
  const busy = task("busy", async (_: null, ctx) => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    ran.set(ctx.id, (ran.get(ctx.id) ?? 0) + 1);
    now--;
  });
  await work([busy], { slots: 4, buffer: 8 });
  const jobs = await turnwise.submitMany(Array.from({ length: 300 }, () => busy.job(null)));
  await Promise.all(jobs.map(({ id }) => server.until(id, "success")));
  assert.equal(most, 4);
  assert.deepEqual([ran.size, Math.max(...ran.values())], [300, 1]);
  assert.ok(server.count("settle") < 150, `${server.count("settle")} settles: ends are gathered`);
});

test("what is submitted within a run belongs to its trace", async (t) => {
  const { turnwise, work } = await place(t);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const child = task("child", (_: null, ctx) => [ctx.traceparent, ctx.tracestate]);
  const parent = task("parent", async () => (await turnwise.submit(child, null)).id);
  await work([child, parent]);
  const { id } = await turnwise.submit(parent, null, { traceparent, tracestate: "vendor=1" });
  const job = await turnwise.wait((await turnwise.wait(id)).result);
  assert.deepEqual(job.result, [traceparent, "vendor=1"]);
});

test("what goes around every task sees its run and its end", async (t) => {
  const { turnwise, work } = await place(t);
  const seen: unknown[] = [];
  const add = task("add", (n: number) => n + 1);
  await work([add], {
    around: async (ctx, inner) => {
      seen.push(ctx.task);
      const value = await inner();
      seen.push(value);
      return value;
    },
  });
  const { id } = await turnwise.submit(add, 1);
  assert.equal((await turnwise.wait(id)).result, 2);
  assert.deepEqual(seen, ["add", 2]);
});

test("a worker that is stopped gives back what has not begun, lets end what runs, and leaves", async (t) => {
  const { server, turnwise, work } = await place(t);
  const [begun, gate] = [new Gate(), new Gate()];
  const slow = task("slow", () => (begun.open(), gate.opened));
  const worker = await work([slow], { slots: 1, buffer: 2, drain: "1h" });
  const jobs = await turnwise.submitMany([1, 2, 3].map(() => slow.job(null)));
  await begun.opened;
  for (const { id } of jobs) await server.until(id, "scheduled");
  const stopped = worker.stop();
  for (const { id } of jobs.slice(1)) await server.until(id, "waiting");
  gate.open();
  await stopped;
  assert.equal((await turnwise.job(jobs[0]!.id)).state, "success");
  assert.deepEqual(server.workers.map(({ over }) => over), ["left"]);
});

test("what still runs when the time to drain is over is interrupted, and spends no attempt", async (t) => {
  const { server, turnwise, work } = await place(t);
  const begun = new Gate();
  const endless = task("endless", (_: null, ctx) => new Promise((_, reject) => (ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)), begun.open())));
  const worker = await work([endless], { drain: "10ms" });
  const { id } = await turnwise.submit(endless, null);
  await begun.opened;
  await worker.stop();
  const job = await turnwise.job(id);
  assert.deepEqual([job.state, job.attempt, job.error], ["waiting", 0, null]);
  assert.equal(server.fence(id), 1);
});

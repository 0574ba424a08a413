import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { task, Unauthorized, Worker, Turnwise } from "turnwise";
import { MemoryServer, type Trouble } from "turnwise/testing";
import { Gate, place, Said } from "./support.js";

const verbs = ["register", "take", "beat", "note", "settle", "leave"];
const troubles: Trouble[] = ["request", "reply", "twice", 503, 429];

test("a job runs once", { concurrency: 8 }, async (t) => {
  const all = verbs.flatMap((verb) => troubles.map((trouble) => ({ verb, trouble })));
  await Promise.all(all.map(({ verb, trouble }) => t.test(`although ${verb} meets this trouble: ${trouble}`, (t) => once(t, verb, trouble))));
});

async function once(t: TestContext, verb: string, trouble: Trouble): Promise<void> {
  const { server, turnwise, work } = await place(t);
  const ran: string[] = [];
  const steps: string[] = [];
  const job = task("job", async (_: null, ctx) => {
    ran.push(ctx.id);
    ctx.log("hello");
    await ctx.step("one", () => steps.push(ctx.id));
  });
  server.trouble(verb, trouble, 3);
  const worker = await work([job], { slots: 2 });
  const jobs = await turnwise.submitMany(Array.from({ length: 5 }, () => job.job(null)));
  const ids = jobs.map(({ id }) => id).sort();
  await Promise.all(ids.map((id) => server.until(id, "success")));
  if (verb === "beat") await server.when(() => server.count("beat") >= (trouble === "twice" ? 1 : 4));
  await worker.stop();
  assert.deepEqual([ran.sort(), steps.sort()], [ids, ids]);
  for (const id of ids) {
    assert.equal(server.fence(id), 1);
    assert.equal((await turnwise.log(id)).lines.length, 1);
  }
  assert.deepEqual(server.workers.map(({ over }) => over), ["left"]);
}

test("a worker that was lost stops what it runs, and registers anew", async (t) => {
  const { server, turnwise, work, said } = await place(t);
  const runs: number[] = [];
  const reasons: string[] = [];
  const begun = [new Gate(), new Gate()];
  const gate = new Gate();
  const slow = task("slow", async (_: null, ctx) => {
    runs.push(ctx.fence);
    begun[ctx.fence - 1]!.open();
    if (ctx.fence > 1) return gate.opened.then(() => "second");
    await new Promise((_, reject) => ctx.signal.addEventListener("abort", () => (reasons.push(ctx.signal.reason.reason), reject(ctx.signal.reason))));
    return "first";
  });
  await work([slow], { name: "same" });
  const { id } = await turnwise.submit(slow, null);
  await begun[0]!.opened;
  server.loseWorkers();
  await begun[1]!.opened;
  gate.open();
  assert.equal((await turnwise.wait(id)).result, "second");
  assert.deepEqual([runs, reasons], [[1, 2], ["gone"]]);
  assert.deepEqual(server.workers.map(({ name, over }) => [name, over]), [["same", "lost"], ["same", null]]);
  assert.ok(said.lines.some((line) => line.includes("was lost")), said.lines.join("\n"));
});

test("a job that another node has got is stopped, and its end changes nothing", async (t) => {
  const { server, turnwise, work } = await place(t, { grace: "20ms" });
  const [begun, stopped] = [new Gate(), new Gate<string>()];
  let runs = 0;
  const slow = task("slow", { retry: "durations:1h" }, async (_: null, ctx) => {
    if (++runs > 1) return;
    begun.open();
    await new Promise<void>((resolve) => ctx.signal.addEventListener("abort", () => (stopped.open(ctx.signal.reason.reason), resolve())));
  });
  await work([slow]);
  // The server's clock jumps: the run is over time for it, and not here.
  const { id } = await turnwise.submit(slow, null, { timeout: "10m" });
  await begun.opened;
  server.advance("11m");
  assert.ok(["timed_out", "gone"].includes(await stopped.opened));
  const job = await turnwise.job(id);
  assert.notEqual(job.state, "success");
});

test("a worker whose token is refused stops and says so", async (t) => {
  const server = await MemoryServer.start({ token: "right" });
  t.after(() => server.stop());
  const worker = new Worker(new Turnwise({ url: server.url, token: "wrong" }), [task("noop", () => {})], { signals: false, logger: new Said() });
  await assert.rejects(worker.run(), Unauthorized);
});

test("a name that a living worker has is waited for, and taken when that one has left", async (t) => {
  const { server, work } = await place(t);
  const noop = task("noop", () => {});
  const first = await work([noop], { name: "one" });
  const second = work([noop], { name: "one" });
  await server.when(() => server.count("register") >= 3);
  await first.stop();
  await second;
  assert.deepEqual(server.workers.map(({ name, over }) => [name, over]), [["one", "left"], ["one", null]]);
});

test("jobs that a limit counts are stopped when no server has answered for most of the lease, others go on", async (t) => {
  const { server, turnwise, work } = await place(t);
  server.limit("limited");
  const stopped = new Gate<string>();
  const begun = [new Gate(), new Gate()];
  const gate = new Gate();
  const limited = task("limited", async (_: null, ctx) => {
    if (ctx.fence > 1) return "again";
    begun[0]!.open();
    await new Promise((_, reject) => ctx.signal.addEventListener("abort", () => (stopped.open(ctx.signal.reason.reason), reject(ctx.signal.reason))));
    return "once";
  });
  const free = task("free", async (_: null, ctx) => {
    begun[1]!.open();
    await gate.opened;
    return ctx.stopped;
  });
  await work([limited, free], { lease: "1500ms" });
  const jobs = await turnwise.submitMany([limited.job(null), free.job(null)]);
  await Promise.all(begun.map(({ opened }) => opened));
  server.away = true;
  assert.equal(await stopped.opened, "doubt");
  server.away = false;
  gate.open();
  const [one, two] = await Promise.all(jobs.map(({ id }) => turnwise.wait(id)));
  assert.equal(one!.result, "again");
  assert.equal(two!.state, "success");
});

test("a server that is away for a while costs no job", async (t) => {
  const { server, turnwise, work } = await place(t);
  let runs = 0;
  const noop = task("noop", () => void runs++);
  await work([noop], { slots: 2 });
  const before = await turnwise.submit(noop, null);
  await turnwise.wait(before.id);
  server.away = true;
  const submitted = turnwise.submitMany(Array.from({ length: 10 }, () => noop.job(null)));
  await server.when(() => server.count("submit") >= 4 && server.count("take") >= 4);
  server.away = false;
  for (const { id, new: fresh } of await submitted) {
    assert.ok(fresh);
    await server.until(id, "success");
  }
  assert.equal(runs, 11);
});

test("a flood among troubles of all kinds runs each job once, and stores each end", async (t) => {
  const { server, turnwise, work } = await place(t);
  const ran = new Map<string, number>();
  const busy = task("busy", async (n: number, ctx) => {
    if (n % 3 === 0) ctx.log(`job ${n}`);
    if (n % 5 === 0) await ctx.step("step", () => n);
    ran.set(ctx.id, (ran.get(ctx.id) ?? 0) + 1);
    return n;
  });
  // The same troubles each time: a small generator of numbers, with its seed.
  let seed = 20_261_119;
  const random = (below: number) => (seed = (seed * 48_271) % 0x7fffffff) % below;
  // Each second one is carried out, so that pauses between tries stay short.
  for (let n = 0; n < 60; n++) server.trouble(["take", "note", "settle"][random(3)]!, random(2) === 0 ? "twice" : troubles[random(troubles.length)]!);
  const worker = await work([busy], { slots: 5, buffer: 5 });
  const jobs = await turnwise.submitMany(Array.from({ length: 200 }, (_, n) => busy.job(n)));
  const ended = await Promise.all(jobs.map(({ id }) => turnwise.wait(id)));
  await worker.stop();
  assert.deepEqual(ended.map(({ state, result }) => [state, result]), jobs.map((_, n) => ["success", n]));
  assert.deepEqual([ran.size, Math.max(...ran.values())], [200, 1]);
  assert.ok(jobs.every(({ id }) => server.fence(id) === 1));
});

//! Against the real server: TURNWISE_BIN names the binary.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { test, type TestContext } from "node:test";
import { Conflict, fail, Forbidden, Invalid, next, NotFound, snooze, task, Turnwise, Unauthorized, Worker, type Task, type WorkerOptions } from "turnwise";
import { balance, binary, Real } from "./server.js";
import { afterwards, Gate, Program, Said } from "./support.js";

const programs = fileURLToPath(new URL("programs.js", import.meta.url));

async function work(t: TestContext, turnwise: Turnwise, tasks: Task[], options: WorkerOptions = {}): Promise<Worker> {
  const worker = new Worker(turnwise, tasks, { signals: false, drain: 0, lease: "5s", logger: new Said(), ...options });
  afterwards(t, () => worker.stop().catch(() => {}));
  await worker.start();
  return worker;
}

const promises: [string, (t: TestContext) => Promise<void>][] = [];
const promise = (name: string, run: (t: TestContext) => Promise<void>) => promises.push([name, run]);

promise("jobs are submitted, read, awaited and cancelled", async (t) => {
  const { turnwise } = await Real.start(t, "--demo-tasks");
  const one = await turnwise.submit("sleep", { ms: 20 }, { group: "acme", priority: "high", timeout: "1m" });
  assert.deepEqual([one.new, one.duplicate], [true, null]);
  const ended = await turnwise.wait(one.id);
  assert.deepEqual([ended.state, ended.group, ended.priority, ended.timeout], ["success", "acme", 3, "1m"]);
  const [last, first] = await turnwise.submitMany([{ task: "noop", after: ["a"] }, { task: "sleep", args: { ms: 50 }, as: "a" }]);
  const after = await turnwise.wait(last!.id);
  assert.deepEqual([after.state, after.after], ["success", [first!.id]]);

  const held = await turnwise.submit("noop", null, { unique: "u", in: "1h" });
  assert.deepEqual(await turnwise.submit("noop", null, { unique: "u" }), { id: held.id, new: false, duplicate: "kept" });
  await assert.rejects(turnwise.submit("noop", null, { unique: "u", onDuplicate: "reject" }), (error) => error instanceof Conflict && error.job === held.id);
  assert.equal((await turnwise.cancel(held.id)).decided, "cancelled");
  await assert.rejects(turnwise.cancel(held.id), Conflict);
  assert.equal((await turnwise.retry(held.id)).decided, "waiting");

  const keyed = await turnwise.submit("noop", null, { idempotencyKey: "order-7" });
  assert.deepEqual(await turnwise.submit("noop", null, { idempotencyKey: "order-7" }), keyed);
  const refused = await turnwise.submit("noop", null, { priority: 11 }).catch((error: unknown) => error);
  assert.ok(refused instanceof Invalid);
  assert.equal(refused.errors[0]!.path, "/priority");
  await assert.rejects(turnwise.job(held.id.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"))), NotFound);
  const { jobs } = await turnwise.jobs({ group: "acme", state: ["success", "failed"] });
  assert.deepEqual(jobs.map(({ id }) => id), [one.id]);
});

promise("a worker runs all that a task can say", async (t) => {
  const { turnwise } = await Real.start(t);
  let naps = 0;
  const later = task("later", (args: { from: string }) => `from ${args.from}`);
  const tasks: Record<string, Task> = {
    result: task("result", (args: { n: number }) => args.n + 1),
    nothing: task("nothing", () => {}),
    retried: task("retried", { retry: "durations:1ms" }, (_, ctx) => {
      if (ctx.attempt === 1) throw new Error("once", { cause: new Error("because") });
      return ctx.attempt;
    }),
    exhausted: task("exhausted", { retry: "none", onExhausted: "later" }, () => {
      throw new Error("always");
    }),
    failed: task("failed", () => fail("never")),
    napped: task("napped", (_, ctx) => (naps++ === 0 ? snooze("1ms") : ctx.attempt)),
    next: task("next", () => next(later.job({ from: "next" }))),
    late: task("late", { timeout: "50ms", retry: "none" }, (_, ctx) => new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)))),
    steps: task("steps", { retry: "durations:1ms" }, async (_, ctx) => {
      const at = await ctx.step("first", () => ctx.attempt);
      ctx.log(`run ${ctx.attempt}`, "warn");
      ctx.progress(ctx.attempt, 2, "runs");
      if (ctx.attempt === 1) throw new Error("after the step");
      return at;
    }),
  };
  await work(t, turnwise, [...Object.values(tasks), later]);
  const ended = async (name: string) => turnwise.wait((await turnwise.submit(name, { n: 1, from: "args" })).id, { for: "60s" });
  const seen = Object.fromEntries(await Promise.all(Object.keys(tasks).map(async (name) => [name, await ended(name)] as const)));
  const said = Object.fromEntries(Object.entries(seen).map(([name, job]) => [name, [job.state, job.result]]));
  assert.deepEqual(said, {
    result: ["success", 2], nothing: ["success", null], retried: ["success", 2], exhausted: ["success", "from args"], failed: ["failed", null],
    napped: ["success", 1], next: ["success", "from next"], late: ["failed", null], steps: ["success", 1],
  });
  assert.match(seen.retried!.attempts[0]!.error!.join(": "), /once: because/);
  assert.deepEqual([seen.failed!.error, seen.late!.attempts[0]!.ending], ["never", "timed out"]);
  assert.deepEqual([seen.steps!.steps, seen.steps!.progress], [{ first: 1 }, { done: 2, total: 2, text: "runs" }]);
  const { lines } = await turnwise.log(seen.steps!.id);
  assert.deepEqual(lines.map(({ level, text }) => [level, text]), [["warn", "run 1"], ["warn", "run 2"]]);
});

promise("secret fields reach the task, and are shown to nobody", async (t) => {
  const { turnwise } = await Real.start(t);
  let card = "";
  const charge = task("charge", { secret: ["/card"], retry: "none" }, (args: { card: string; to: string }, ctx) => {
    card = args.card;
    ctx.log(`charging ${args.card}`);
    throw new Error(`no money on ${args.card}`);
  });
  await work(t, turnwise, [charge]);
  const { id } = await turnwise.submit(charge, { card: "4111-1111", to: "ann" });
  const job = await turnwise.wait(id, { for: "60s" });
  const { lines } = await turnwise.log(id);
  assert.equal(card, "4111-1111");
  assert.deepEqual(job.args, { card: "[secret]", to: "ann" });
  assert.ok(!JSON.stringify([job, lines]).includes("4111"), JSON.stringify([job, lines]));
});

promise("a running job that is cancelled stops at once, in a worker that has no room", async (t) => {
  const { turnwise } = await Real.start(t);
  const begun = new Gate();
  const endless = task("endless", (_: null, ctx) => new Promise((_, reject) => (ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)), begun.open())));
  // Beats come every ten seconds: a stop within one of them is the take's.
  await work(t, turnwise, [endless], { slots: 1, lease: "30s" });
  const { id } = await turnwise.submit(endless, null);
  await begun.opened;
  const asked = performance.now();
  await turnwise.cancel(id);
  assert.equal((await turnwise.wait(id, { for: "60s" })).state, "cancelled");
  assert.ok(performance.now() - asked < 9_000, `it took ${performance.now() - asked} ms`);
});

promise("a flood is run, each job once, and as many at a time as there are slots", async (t) => {
  const { turnwise } = await Real.start(t);
  const ran = new Map<string, number>();
  let [now, most] = [0, 0];
  const busy = task("busy", async (_: null, ctx) => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
    ran.set(ctx.id, (ran.get(ctx.id) ?? 0) + 1);
  });
  await work(t, turnwise, [busy], { slots: 8, buffer: 100 });
  const jobs = await turnwise.submitMany(Array.from({ length: 2_000 }, () => busy.job(null)));
  await Promise.all([jobs[0]!, jobs.at(-1)!].map(({ id }) => turnwise.wait(id, { for: "60s" })));
  while (ran.size < jobs.length) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual([most, Math.max(...ran.values())], [8, 1]);
});

promise("a job that blocks the thread for three leases is not lost", async (t) => {
  const { url, turnwise } = await Real.start(t);
  new Program(t, process.execPath, [programs, "blocks", url], { LEASE: "8s" });
  const { id } = await turnwise.submit("blocks", { ms: 24_000 });
  const job = await turnwise.wait(id, { for: "120s" });
  assert.deepEqual([job.state, job.result, job.attempt, job.attempts], ["success", 1, 1, []]);
});

promise("SIGTERM lets end what runs, and a second one gives it back", async (t) => {
  const { url, turnwise } = await Real.start(t);
  const first = new Program(t, process.execPath, [programs, "waits", url]);
  const short = await turnwise.submit("waits", { ms: 500 });
  await first.line("begun");
  first.signal("SIGTERM");
  await first.line("left");
  assert.deepEqual([await first.exit, (await turnwise.job(short.id)).state], [0, "success"]);

  const second = new Program(t, process.execPath, [programs, "waits", url], { DRAIN: "0s" });
  const long = await turnwise.submit("waits", { ms: 3_600_000 });
  await second.line("begun");
  second.signal("SIGTERM");
  await second.line("left");
  const job = await turnwise.job(long.id);
  assert.deepEqual([await second.exit, job.state, job.attempt], [0, "waiting", 0]);
});

promise("jobs of a worker that was killed go to another one when its lease is over", async (t) => {
  const { url, turnwise } = await Real.start(t);
  const first = new Program(t, process.execPath, [programs, "waits", url], { LEASE: "5s" });
  const { id } = await turnwise.submit("waits", { ms: 200 + 1e9 });
  await first.line("begun");
  first.signal("SIGKILL");
  await first.exit;
  const second = new Program(t, process.execPath, [programs, "waits", url]);
  assert.match(await second.line("begun"), new RegExp(id));
});

promise("a worker that was stopped beyond its lease and woken does not end the job that another one runs", async (t) => {
  const { url, turnwise } = await Real.start(t);
  const first = new Program(t, process.execPath, [programs, "waits", url], { LEASE: "5s" });
  const { id } = await turnwise.submit("waits", { ms: 20_000 });
  await first.line("begun");
  first.signal("SIGSTOP");
  const second = new Program(t, process.execPath, [programs, "waits", url]);
  await second.line("begun");
  first.signal("SIGCONT");
  await second.line("ended");
  const job = await turnwise.wait(id, { for: "60s" });
  assert.equal(job.state, "success");
  assert.ok(Number(job.result) > 1, `the end is that of the run under fence ${job.result}`);
});

promise("a server that is killed in the middle of a job, and comes back, loses nothing", async (t) => {
  const real = await Real.start(t);
  const { turnwise } = real;
  let runs = 0;
  const [begun, gate] = [new Gate(), new Gate()];
  const slow = task("slow", async (_: null, ctx) => {
    runs++;
    ctx.log("before");
    begun.open();
    await gate.opened;
    await ctx.step("step", () => 1);
    return "survived";
  });
  await work(t, turnwise, [slow], { lease: "30s" });
  const { id } = await turnwise.submit(slow, null);
  await begun.opened;
  await real.kill();
  gate.open();
  await real.again();
  const job = await turnwise.wait(id, { for: "120s" });
  assert.deepEqual([job.state, job.result, job.attempt, runs], ["success", "survived", 1, 1]);
});

promise("two servers that are deployed one after another under load, each request to the other one, run each job once", async (t) => {
  const first = await Real.start(t);
  const servers = [first, await first.beside()];
  const turnwise = new Turnwise({ url: await balance(t, servers) });
  const ran = new Map<string, number>();
  const quick = task("quick", async (_: null, ctx) => {
    ctx.log("hello");
    await ctx.step("step", () => new Promise((resolve) => setTimeout(resolve, 5)));
    ran.set(ctx.id, (ran.get(ctx.id) ?? 0) + 1);
  });
  await work(t, turnwise, [quick], { slots: 10, buffer: 10, lease: "30s" });
  const ids: string[] = [];
  for (const server of [...servers, ...servers]) {
    ids.push(...(await turnwise.submitMany(Array.from({ length: 100 }, () => quick.job(null)))).map(({ id }) => id));
    await server.stop();
    await server.again();
  }
  for (const id of ids) assert.equal((await turnwise.wait(id, { for: "120s" })).state, "success");
  assert.deepEqual([ran.size, Math.max(...ran.values())], [ids.length, 1]);
});

promise("a token decides what a worker may run", async (t) => {
  const real = await Real.start(t);
  const token = (...args: string[]) => real.command("token", "create", ...args).trim();
  const mail = token("--name", "mail", "--scope", "work", "--queue", "mail");
  const all = token("--name", "all", "--scope", "submit,read");
  const known = new Turnwise({ url: real.url, token: all });
  // The server hears of the first token within two seconds.
  while (await real.turnwise.jobs().then(() => true, () => false)) await new Promise((resolve) => setTimeout(resolve, 100));
  const noop = task("noop", () => {});
  const said = new Said();
  const refused = (turnwise: Turnwise) => new Worker(turnwise, [noop], { signals: false, logger: said }).run();
  await assert.rejects(refused(new Turnwise({ url: real.url, token: "tw_wrong" })), Unauthorized);
  await assert.rejects(refused(known), Forbidden);
  await work(t, new Turnwise({ url: real.url, token: mail }), [noop], { queues: ["mail", "other"], logger: said });
  assert.match(said.lines.join("\n"), /left out: other/);
  const [inside, outside] = await known.submitMany([noop.job(null, { queue: "mail" }), noop.job(null, { queue: "other" })]);
  assert.equal((await known.wait(inside!.id, { for: "60s" })).state, "success");
  assert.equal((await known.job(outside!.id)).state, "waiting");
});

test("with a real server", { concurrency: 4, skip: binary === "" && "TURNWISE_BIN names no binary" }, async (t) => {
  await Promise.all(promises.map(([name, run]) => t.test(name, run)));
});

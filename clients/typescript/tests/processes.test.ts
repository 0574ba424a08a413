import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { test, type TestContext } from "node:test";
import { place, Program } from "./support.js";

const programs = fileURLToPath(new URL("programs.js", import.meta.url));

/** Side by side: most of their time is that of leases, which are as short as a server takes them. */
const promises: [string, (t: TestContext) => Promise<void>][] = [];
const promise = (name: string, run: (t: TestContext) => Promise<void>) => promises.push([name, run]);

promise("a job that blocks the thread for three leases is not lost", async (t) => {
  const { server, turnwise } = await place(t);
  new Program(t, process.execPath, [programs, "blocks", server.url], { LEASE: "8s" });
  const { id } = await turnwise.submit("blocks", { ms: 24_000 });
  const job = await turnwise.wait(id);
  assert.deepEqual([job.state, job.result, job.attempt], ["success", 1, 1]);
  assert.deepEqual(server.workers.map(({ over }) => over), [null]);
});

promise("SIGTERM lets end what runs, and the process ends by itself", async (t) => {
  const { server, turnwise } = await place(t);
  const program = new Program(t, process.execPath, [programs, "waits", server.url]);
  const { id } = await turnwise.submit("waits", { ms: 300 });
  await program.line("begun");
  program.signal("SIGTERM");
  await program.line("ended");
  await program.line("left");
  assert.equal(await program.exit, 0);
  assert.deepEqual([(await turnwise.job(id)).state, server.workers[0]!.over], ["success", "left"]);
});

promise("a second SIGTERM interrupts what runs, which spends no attempt", async (t) => {
  const { server, turnwise } = await place(t);
  const program = new Program(t, process.execPath, [programs, "waits", server.url], { DRAIN: "1h" });
  const { id } = await turnwise.submit("waits", { ms: 3_600_000 });
  await program.line("begun");
  program.signal("SIGTERM");
  await server.when(() => server.workers[0]!.slots === 0);
  program.signal("SIGTERM");
  await program.line("left");
  assert.equal(await program.exit, 0);
  const job = await turnwise.job(id);
  assert.deepEqual([job.state, job.attempt, server.fence(id)], ["waiting", 0, 1]);
});

promise("jobs of a killed worker go to another one when its lease is over", async (t) => {
  const { server, turnwise } = await place(t);
  const first = new Program(t, process.execPath, [programs, "waits", server.url], { LEASE: "5s" });
  const { id } = await turnwise.submit("waits", { ms: 3_600_000 });
  await first.line("begun");
  first.signal("SIGKILL");
  await first.exit;
  const second = new Program(t, process.execPath, [programs, "waits", server.url]);
  assert.match(await second.line("begun"), new RegExp(id));
  assert.equal(server.fence(id), 2);
});

promise("a worker that was stopped beyond its lease and woken stops what is another's", async (t) => {
  const { server, turnwise } = await place(t);
  const first = new Program(t, process.execPath, [programs, "waits", server.url], { LEASE: "5s" });
  const { id } = await turnwise.submit("waits", { ms: 8_000 });
  await first.line("begun");
  first.signal("SIGSTOP");
  const second = new Program(t, process.execPath, [programs, "waits", server.url]);
  await second.line("begun");
  first.signal("SIGCONT");
  // It registers anew, and the end that counts is not that of its old run.
  await server.when(() => server.count("register") >= 3);
  const job = await turnwise.wait(id);
  assert.deepEqual([job.state, job.result], ["success", server.fence(id)]);
  assert.ok(job.result > 1);
});

test("processes", { concurrency: true }, async (t) => {
  await Promise.all(promises.map(([name, run]) => t.test(name, run)));
});

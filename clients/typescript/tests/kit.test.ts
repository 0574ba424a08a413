import assert from "node:assert/strict";
import { test } from "node:test";
import { snooze, task } from "turnwise";
import { runTask } from "turnwise/testing";

const charge = task("charge", { timeout: "1h" }, async ({ amount }: { amount: number }, ctx) => {
  const { id } = await ctx.step("charge", () => ({ id: amount * 2 }));
  ctx.progress(1, 2, "charged");
  ctx.log(`attempt ${ctx.attempt}`);
  if (ctx.attempt === 1) throw new Error("the mail server is away");
  await ctx.sleep("1h");
  return id;
});

test("a run is inline, and its log, progress and steps are there", async () => {
  const first = await runTask(charge, { amount: 4 });
  assert.deepEqual(first.outcome, { outcome: "error", error: "the mail server is away" });
  assert.deepEqual([first.log, first.progress, first.steps], [["attempt 1"], { done: 1, total: 2, text: "charged" }, { charge: { id: 8 } }]);
  const noon = new Date("2026-11-19T12:00:00Z");
  const second = await runTask(charge, { amount: 0 }, { attempt: 2, steps: first.steps, now: noon });
  assert.deepEqual(second.outcome, { outcome: "snooze", for: "3600000ms" });
  const third = await runTask(charge, { amount: 0 }, { attempt: 2, steps: second.steps, now: new Date("2026-11-19T13:00:00Z") });
  assert.equal(third.result, 8);
});

test("a run can be cancelled, and is stopped by its timeout", async () => {
  const endless = task("endless", (_: null, ctx) => new Promise<void>((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason))));
  const cancel = new AbortController();
  const run = runTask(endless, null, { cancel: cancel.signal });
  cancel.abort();
  assert.deepEqual((await run).outcome, { outcome: "cancelled" });
  assert.deepEqual((await runTask(endless, null, { timeout: "1ms" })).outcome, { outcome: "timed_out" });
});

test("a step that is asked for twice runs once, and one that failed may be tried again", async () => {
  let runs = 0;
  const steps = task("steps", async (_: null, ctx) => {
    const twice = await Promise.all([1, 2].map(() => ctx.step("both", () => ++runs)));
    await ctx.step("late", () => Promise.reject(new Error("no"))).catch(() => {});
    return [...twice, await ctx.step("late", () => "now"), await ctx.step("both", () => 9)];
  });
  assert.deepEqual((await runTask(steps, null)).result, [1, 1, "now", 1]);
});

test("a result that no JSON can say is a failure of the step", async () => {
  const big = task("big", async (_: null, ctx) => ctx.step("big", () => 1n).then(() => {}));
  assert.match((await runTask(big, null)).outcome.error!, /the result of step "big" is no JSON/);
  assert.deepEqual((await runTask(task("nap", () => snooze("5m")), null)).outcome, { outcome: "snooze", for: "5m" });
});

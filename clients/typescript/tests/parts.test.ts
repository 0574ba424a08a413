import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { newId } from "../dist/id.js";
import { Backoff } from "../dist/connection.js";
import { describe } from "../dist/outcome.js";
import { problemOf } from "../dist/problem.js";
import { CLIENT } from "../dist/protocol.js";
import { spanMs, spanText } from "../dist/span.js";
import { Desk, Slots } from "../dist/desk.js";
import { Ends } from "../dist/ends.js";
import { Notes } from "../dist/notes.js";
import { Said } from "./support.js";

test("ids grow, also within a millisecond, and no two are the same", () => {
  const ids = Array.from({ length: 20_000 }, newId);
  assert.deepEqual([...ids].sort(), ids);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.ok(Math.abs(parseInt(ids.at(-1)!.replace("-", "").slice(0, 12), 16) - Date.now()) < 1_000);
});

test("lengths of time are read as the server reads them", () => {
  assert.deepEqual(["250ms", "30s", "5m", "1h 30m", "1.5s", "2d"].map(spanMs), [250, 30_000, 300_000, 5_400_000, 1_500, 172_800_000]);
  assert.deepEqual([0, 1_500, 0.5, "10m"].map(spanText), ["0ms", "1500ms", "500us", "10m"]);
  for (const wrong of ["", "10", "s", "10 s", "1x", -1, NaN, Infinity]) assert.throws(() => spanMs(wrong), RangeError);
});

test("pauses between tries are doubled up to five seconds, and never shorter than the server asks for", () => {
  const backoff = new Backoff();
  const pauses = Array.from({ length: 10 }, () => backoff.after(new Error("x")));
  pauses.forEach((pause, at) => assert.ok(pause <= Math.min(100 * 2 ** at, 5_000) && pause >= Math.min(100 * 2 ** at, 5_000) / 2, String(pauses)));
  assert.equal(new Backoff().after(problemOf(503, {}, 30_000)), 30_000);
});

test("the text of an error has its causes", () => {
  assert.equal(describe(new Error("a", { cause: new TypeError("b", { cause: "c" }) })), "a: TypeError: b: c");
  assert.equal(describe(undefined), "thrown without a value");
  assert.equal(describe({ code: 7 }), '{"code":7}');
  const circle: any = {};
  circle.self = circle;
  assert.equal(describe(circle), "[object Object]");
});

test("the client says the version of its package", () => {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(CLIENT, `turnwise-typescript ${version}`);
});

test("a job whose end was answered while a take was under way is not taken again by its answer", () => {
  const desk = new Desk(new Slots(1), 0);
  const run = { id: "a", fence: 1 } as any;
  const [older, newer] = [desk.beginTake(), desk.beginTake()];
  desk.take(run);
  desk.release([run]);
  desk.endTake(older);
  assert.ok(desk.knows(run), "the newer take did not name it");
  desk.endTake(newer);
  assert.ok(!desk.knows(run), "nothing brings it any more");
});

test("of the ends in a refused request only the one that spoils it is replaced", async () => {
  const sent: any[][] = [];
  const settled: string[] = [];
  const done = new Promise<void>((resolve) => {
    const ends = new Ends(
      async (body) => {
        const { ends } = JSON.parse(body);
        sent.push(ends);
        if (ends.some((end: any) => end.outcome.result === "bad")) throw problemOf(413, { detail: "too large" }, null);
        return { ends: ends.map(({ id, fence }: any) => ({ id, fence, answer: "applied" })) };
      },
      (jobs) => (settled.push(...jobs.map(({ id }) => id)), settled.length === 4 && resolve()),
      (error) => assert.fail(String(error)),
      new Said(),
    );
    for (const id of ["a", "b", "c", "d"]) ends.push({ id, fence: 1, ran: 0, outcome: JSON.stringify({ outcome: "done", result: id === "c" ? "bad" : "good" }) });
  });
  await done;
  assert.deepEqual(settled.sort(), ["a", "b", "c", "d"]);
  assert.match(JSON.stringify(sent.flat().filter(({ id }) => id === "c").at(-1)), /"outcome":"fail","error":"the server refused/);
});

test("ends that are locked are sent again, and the others do not wait for them", async () => {
  const settled: string[] = [];
  let tries = 0;
  const done = new Promise<void>((resolve) => {
    const ends = new Ends(
      async (body) => ({ ends: JSON.parse(body).ends.map(({ id, fence }: any) => ({ id, fence, answer: id === "a" && tries++ < 2 ? "locked" : "applied" })) }),
      (jobs) => (settled.push(...jobs.map(({ id }) => id)), settled.length === 2 && resolve()),
      (error) => assert.fail(String(error)),
      new Said(),
    );
    for (const id of ["a", "b"]) ends.push({ id, fence: 1, ran: 0, outcome: "{}" });
  });
  await done;
  assert.deepEqual([settled, tries], [["b", "a"], 3]);
});

test("lines beyond what can be sent are dropped and counted", async () => {
  const said = new Said();
  const sent: any[] = [];
  const notes = new Notes(async (body) => (sent.push(JSON.parse(body)), { notes: [{ id: "a", fence: 1, answer: "applied" }] }), () => {}, said);
  const job = { id: "a", fence: 1 };
  const kept = Array.from({ length: 1_500 }, (_, number) => notes.line(job, { number, level: "info", text: "x", time: "" })).filter(Boolean);
  await notes.flushed(job);
  assert.deepEqual([kept.length, sent[0].notes[0].lines.length], [1_000, 1_000]);
  assert.match(said.lines.join(), /500 lines of the log of job a were dropped/);
  assert.equal(notes.has(job), false);
});

//! The thread of the beats: nothing but beats, so that nothing delays them.

import { parentPort, workerData } from "node:worker_threads";
import type { BeatData, FromBeats, ToBeats } from "./beats.js";
import { Backoff, Connection, pause } from "./connection.js";
import { Conflict, Forbidden, NotFound, passes, Problem, Unauthorized } from "./problem.js";
import { keyOf, type Beaten, type Named } from "./protocol.js";

const data = workerData as BeatData;
const shared = new BigInt64Array(data.shared);
const connection = new Connection(data.address);
const held = new Map<string, Named>();
let slots = data.slots;
let wake = () => {};

parentPort!.on("message", (message: ToBeats) => {
  if ("hold" in message) {
    for (const job of message.hold) held.set(keyOf(job), job);
  } else if ("release" in message) {
    for (const job of message.release) held.delete(keyOf(job));
  } else {
    slots = message.slots;
    wake();
  }
});

function tell(message: FromBeats): void {
  parentPort!.postMessage(message);
}

/** Returns after this time, or when the number of slots has changed. */
function wait(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** Most beats that are not answered yet: one that hangs does not hold up the next. */
const MOST = 4;
let unanswered = 0;
/** The slots of the last beat. */
let said = data.slots;
let over = false;

async function beat(): Promise<void> {
  const sent = process.hrtime.bigint();
  const lease = Number(Atomics.load(shared, 1));
  const told = (said = slots);
  const body = JSON.stringify({ slots: told, held: [...held.values()] });
  const beaten: Beaten = await connection.once("POST", `/workers/${data.worker}/beat`, { body, within: lease });
  if (sent > Atomics.load(shared, 0)) Atomics.store(shared, 0, sent);
  Atomics.store(shared, 1, BigInt(beaten.lease_ms));
  if (beaten.stop.length > 0) tell({ stop: beaten.stop });
  if (told === 0) tell({ slots: 0 });
}

/** Beats, and says after how long the next one is due. */
async function once(backoff: Backoff): Promise<number> {
  unanswered++;
  try {
    await beat();
    return data.beat;
  } catch (error) {
    if (error instanceof Conflict || error instanceof NotFound) end({ lost: error.detail });
    else if (error instanceof Unauthorized || error instanceof Forbidden) end({ refused: { status: error.status, body: bodyOf(error) } });
    else if (!passes(error)) tell({ trouble: error instanceof Error ? error.message : String(error) });
    return Math.min(backoff.after(error), data.beat);
  } finally {
    unanswered--;
  }
}

function end(message: FromBeats): void {
  if (!over) tell(message);
  over = true;
}

/** Until the worker is lost or refused; the thread that started this one ends it otherwise. */
async function beats(): Promise<void> {
  let backoff = new Backoff();
  // At once: the time since the registration counts, and the connection is there when tasks begin.
  let due = await once(backoff);
  tell({ ready: true });
  while (!over) {
    // News of the slots do not wait.
    if (slots === said) await wait(due);
    if (unanswered >= MOST) {
      await pause(data.beat / MOST);
      continue;
    }
    // What takes longer than a beat is left to itself, and the next one is sent.
    const next = await Promise.race([once(backoff), wait(data.beat).then(() => 0)]);
    if (next === data.beat) backoff = new Backoff();
    due = next;
  }
}

function bodyOf({ type, title, detail, errors }: Problem): Record<string, unknown> {
  return { type, title, detail, errors };
}

// Afterwards the thread stays until it is ended: its exit would be taken for a fault.
await beats();

//! The thread of the beats: nothing but beats, so that nothing delays them.

import { parentPort, workerData } from "node:worker_threads";
import type { BeatData, FromBeats, ToBeats } from "./beats.js";
import { Backoff, Connection } from "./connection.js";
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

async function beat(): Promise<void> {
  const sent = process.hrtime.bigint();
  const lease = Number(shared[1]);
  const said = slots;
  const body = JSON.stringify({ slots: said, held: [...held.values()] });
  // A request that hangs leaves time for several more within the lease.
  const beaten: Beaten = await connection.once("POST", `/workers/${data.worker}/beat`, { body, within: lease / 4 });
  Atomics.store(shared, 0, sent);
  Atomics.store(shared, 1, BigInt(beaten.lease_ms));
  if (beaten.stop.length > 0) tell({ stop: beaten.stop });
  if (said === 0) tell({ slots: 0 });
}

/** Until the worker is lost or refused; the thread that started this one ends it otherwise. */
async function beats(): Promise<void> {
  let backoff = new Backoff();
  let told = data.slots;
  tell({ ready: true });
  await wait(data.beat);
  for (;;) {
    try {
      told = slots;
      await beat();
      backoff = new Backoff();
      if (slots === told) await wait(data.beat);
    } catch (error) {
      if (error instanceof Conflict || error instanceof NotFound) return tell({ lost: error.detail });
      if (error instanceof Unauthorized || error instanceof Forbidden) return tell({ refused: { status: error.status, body: bodyOf(error) } });
      if (!passes(error)) tell({ trouble: error instanceof Error ? error.message : String(error) });
      await wait(Math.min(backoff.after(error), data.beat));
    }
  }
}

function bodyOf({ type, title, detail, errors }: Problem): Record<string, unknown> {
  return { type, title, detail, errors };
}

await beats();
// Nothing is left to do, but the thread stays until it is ended: its exit would be taken for a fault.

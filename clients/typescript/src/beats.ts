//! Beats come from a thread of their own: a task that blocks this one must not lose the worker its jobs.

import { Worker as Thread } from "node:worker_threads";
import type { Address } from "./connection.js";
import { problemOf, TurnwiseError } from "./problem.js";
import type { Named, Stop } from "./protocol.js";

/** What the thread is started with. */
export interface BeatData {
  address: Address;
  worker: string;
  slots: number;
  beat: number;
  lease: number;
  /** Two numbers: when the last answered beat was sent, by `process.hrtime`, and the lease in milliseconds. */
  shared: SharedArrayBuffer;
}

/** What this thread tells it. */
export type ToBeats = { hold: Named[] } | { release: Named[] } | { slots: number };

/** What it tells this one. */
export type FromBeats =
  | { ready: true }
  | { stop: Stop[] }
  | { slots: number }
  | { lost: string }
  | { refused: { status: number; body: Record<string, unknown> } }
  | { trouble: string };

export interface BeatEvents {
  stop(stop: Stop[]): void;
  lost(text: string): void;
  failed(error: unknown): void;
  trouble(text: string): void;
}

export class Beats {
  readonly #thread: Thread;
  readonly #shared: BigInt64Array;
  /** Resolved when the thread runs: from then on tasks may block this one. */
  readonly ready: Promise<void>;
  #isReady!: () => void;
  #drained: (() => void)[] = [];
  #over = false;

  constructor(address: Address, data: Omit<BeatData, "shared" | "address">, registered: bigint, events: BeatEvents) {
    this.ready = new Promise((resolve) => (this.#isReady = resolve));
    const shared = new SharedArrayBuffer(16);
    this.#shared = new BigInt64Array(shared);
    this.#shared[0] = registered;
    this.#shared[1] = BigInt(data.lease);
    const { url, token } = address;
    const workerData: BeatData = { ...data, address: { url, token }, shared };
    // Without the flags of the program that uses this: a loader or an inspector is not for this thread.
    this.#thread = new Thread(new URL("./beat-thread.js", import.meta.url), { workerData, execArgv: [] });
    this.#thread.on("message", (message: FromBeats) => {
      if (this.#over) return;
      if ("ready" in message) this.#isReady();
      else if ("stop" in message) events.stop(message.stop);
      else if ("slots" in message) this.#drained.splice(0).forEach((drained) => drained());
      else if ("lost" in message) events.lost(message.lost);
      else if ("refused" in message) events.failed(problemOf(message.refused.status, message.refused.body, null));
      else events.trouble(message.trouble);
    });
    this.#thread.on("error", (error) => events.failed(error));
    this.#thread.on("exit", () => this.#over || events.failed(new TurnwiseError("the thread of the beats has ended")));
  }

  /** Held before it runs: the message is on its way when the task blocks. */
  hold(jobs: Named[]): void {
    if (jobs.length > 0) this.#tell({ hold: jobs.map(({ id, fence }) => ({ id, fence })) });
  }

  release(jobs: Named[]): void {
    if (jobs.length > 0) this.#tell({ release: jobs.map(({ id, fence }) => ({ id, fence })) });
  }

  /** Returns when a beat without slots was answered: no more jobs are assigned. */
  drain(): Promise<void> {
    return new Promise((resolve) => {
      this.#drained.push(resolve);
      this.#tell({ slots: 0 });
    });
  }

  /** Milliseconds since the last answered beat was sent; right also after this thread was blocked. */
  sinceContact(): number {
    return Number(process.hrtime.bigint() - Atomics.load(this.#shared, 0)) / 1e6;
  }

  /** In milliseconds. */
  lease(): number {
    return Number(Atomics.load(this.#shared, 1));
  }

  async end(): Promise<void> {
    this.#over = true;
    this.#isReady();
    this.#drained.splice(0).forEach((drained) => drained());
    await this.#thread.terminate();
  }

  #tell(message: ToBeats): void {
    if (!this.#over) this.#thread.postMessage(message);
  }
}

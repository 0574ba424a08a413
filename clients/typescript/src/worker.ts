//! A worker: runs the jobs of its tasks, until it is stopped.

import { hostname } from "node:os";
import { randomBytes, randomUUID } from "node:crypto";
import { Backoff, pause } from "./connection.js";
import { Slots } from "./desk.js";
import { Life } from "./life.js";
import { standard, type Logger } from "./logger.js";
import { Conflict, NotFound, passes, TurnwiseError } from "./problem.js";
import { CLIENT, PROTOCOL, type Registered } from "./protocol.js";
import type { Around } from "./run.js";
import { spanMs, type Span } from "./span.js";
import type { Task } from "./task.js";
import type { Turnwise } from "./turnwise.js";

export interface WorkerOptions {
  /** Jobs that run at a time. Default: 10. */
  slots?: number;
  /** Jobs that are held beyond them, so that a slot never waits for a server; for jobs that are shorter than a second. Default: 0. */
  buffer?: number;
  /** Default: all queues. */
  queues?: string[];
  /** How long the worker counts as alive without another beat, 5 s to 10 min. Default: 30 s. */
  lease?: Span;
  /** Unique among the living. Default: made of the host's name, the process and something random. */
  name?: string;
  /** How long runs may go on after the worker was asked to stop, before they are interrupted and given back. Default: 20 s. */
  drain?: Span;
  /** Whether SIGTERM and SIGINT stop the worker, the second one at once. Default: true. */
  signals?: boolean;
  /** Called around every task: for traces, timings, what all tasks share. */
  around?: Around;
  logger?: Logger;
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

export class Worker {
  /** As the fleet knows it. */
  readonly name: string;
  readonly #turnwise: Turnwise;
  readonly #tasks: Map<string, Task>;
  readonly #options: WorkerOptions;
  readonly #slots: Slots;
  readonly #logger: Logger;
  readonly #stopping = new AbortController();
  readonly #interrupt = new AbortController();
  #life: Life | undefined;
  #done: Promise<void> | undefined;
  #registered!: () => void;
  readonly #ready = new Promise<void>((resolve) => (this.#registered = resolve));

  constructor(turnwise: Turnwise, tasks: Task[], options: WorkerOptions = {}) {
    this.#turnwise = turnwise;
    this.#tasks = new Map(tasks.map((task) => [task.name, task]));
    if (this.#tasks.size !== tasks.length) throw new TurnwiseError("two tasks of this worker have the same name");
    if (tasks.length === 0) throw new TurnwiseError("a worker needs a task; give it those that it is to run");
    this.#options = options;
    this.#slots = new Slots(options.slots ?? 10);
    this.#logger = options.logger ?? standard;
    this.name = options.name ?? `${hostname().slice(0, 60)}-${process.pid}-${randomBytes(4).toString("hex")}`;
  }

  /** Registers, and runs jobs from then on. Returns when the worker is registered; throws if it is refused. */
  async start(): Promise<void> {
    await Promise.race([this.#ready, this.#begin()]);
  }

  /** Runs jobs until the worker is stopped, by a signal or by `stop`. Throws if a server refuses it. */
  async run(): Promise<void> {
    await this.#begin();
  }

  /**
   * Stops: no more jobs are taken, those that have not begun go back at once, and those that run may end. After `drain` they are
   * asked to stop, and go back without spending an attempt. Returns when the worker has left.
   */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  #begin(): Promise<void> {
    if (this.#done === undefined) {
      this.#done = this.#lives();
      // Who only started the worker does not wait for its end, and is told all the same.
      this.#done.catch((error: unknown) => this.#logger.error(`this worker has ended: ${error instanceof Error ? error.message : error}`));
    }
    return this.#done;
  }

  async #lives(): Promise<void> {
    const heard = () => (this.#stopping.signal.aborted ? this.#interrupt.abort() : this.#stopping.abort());
    if (this.#options.signals ?? true) SIGNALS.forEach((signal) => process.on(signal, heard));
    const stopping = this.#stopping.signal;
    const stop = () => void this.#life?.stop(spanMs(this.#options.drain ?? "20s"), this.#interrupt.signal);
    stopping.addEventListener("abort", stop);
    try {
      for (let how = "lost"; how === "lost" && !stopping.aborted; ) {
        this.#life = await this.#register();
        const lived = this.#life?.live();
        if (stopping.aborted) stop();
        this.#registered();
        how = (await lived) ?? "left";
      }
    } finally {
      SIGNALS.forEach((signal) => process.off(signal, heard));
      stopping.removeEventListener("abort", stop);
    }
  }

  /** `undefined`: the worker was stopped meanwhile. */
  async #register(): Promise<Life | undefined> {
    const { buffer = 0, queues, around } = this.#options;
    const lease = spanMs(this.#options.lease ?? "30s");
    const body = JSON.stringify({
      protocol: PROTOCOL,
      // By which a repeat is recognised.
      worker: randomUUID(),
      name: this.name,
      language: `node ${process.versions.node}`,
      client: CLIENT,
      slots: this.#slots.limit,
      buffer,
      queues,
      lease_ms: Math.round(lease),
      tasks: Object.fromEntries(Array.from(this.#tasks, ([name, task]) => [name, task.wire()])),
    });
    const { connection } = this.#turnwise;
    const backoff = new Backoff();
    const begun = performance.now();
    while (!this.#stopping.signal.aborted) {
      try {
        const sent = process.hrtime.bigint();
        const registered: Registered = await connection.once("POST", "/workers", { body, signal: this.#stopping.signal });
        this.#report(registered);
        return new Life({ connection, registered, sent, tasks: this.#tasks, slots: this.#slots, buffer, around, logger: this.#logger });
      } catch (error) {
        if (this.#stopping.signal.aborted) break;
        // The life before this one ends with its lease. A name that is taken for longer is another living worker's.
        const taken = error instanceof Conflict && performance.now() - begun < 2 * lease + 5_000;
        if (error instanceof NotFound) throw new TurnwiseError("this server has no workers: it is of an older version, or this is not its address", { cause: error });
        if (!taken && !passes(error)) throw error;
        this.#logger.warn(`not registered yet: ${(error as Error).message}`);
        const wait = Math.max(backoff.after(error), (error instanceof Conflict && error.retryAfter) || 0);
        await pause(wait, this.#stopping.signal).catch(() => {});
      }
    }
    return undefined;
  }

  #report({ tasks, queues }: Registered): void {
    const cut = [...this.#tasks.keys()].filter((name) => !tasks.includes(name));
    if (cut.length > 0) this.#logger.warn(`the token may not run these tasks, and they are left out: ${cut.join(", ")}`);
    const asked = this.#options.queues;
    const left = asked?.filter((name) => queues !== null && !queues.includes(name)) ?? [];
    if (left.length > 0) this.#logger.warn(`the token may not serve these queues, and they are left out: ${left.join(", ")}`);
    this.#logger.info(`registered as ${this.name}`);
  }
}

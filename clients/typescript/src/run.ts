//! One run of one job: from its start to the end that is to be settled.

import { LONGEST_TIMER } from "./connection.js";
import { Ctx, type Running } from "./ctx.js";
import type { Notebook } from "./notes.js";
import { CANCELLED, describe, INTERRUPTED, returned, thrown, TIMED_OUT } from "./outcome.js";
import type { Level, TakenJob } from "./protocol.js";
import { Stopped, type StopReason } from "./stop.js";
import type { Task } from "./task.js";
import { within, type Trace } from "./trace.js";

/** Around every task: calls `inner`, and returns what it returns. */
export type Around = (ctx: Ctx, inner: () => Promise<unknown>) => Promise<unknown>;

/** How long a task may go on after it was asked to stop, in milliseconds. */
export interface Grace {
  /** When it is cancelled, or the worker stops. */
  stop: number;
  /** When its time is over. */
  timeout: number;
}

export class Run implements Running {
  readonly id: string;
  readonly fence: number;
  readonly limited: boolean;
  /** A monotonic time, in milliseconds. */
  readonly taken: number;
  #begun = 0;
  #ended = false;
  #controller: AbortController | undefined;
  #stop: StopReason | null = null;
  #timeout: NodeJS.Timeout | undefined;
  #abandoned: ((outcome: string | null) => void) | undefined;
  #steps: Map<string, unknown> | undefined;
  #line = 0;

  constructor(
    readonly job: TakenJob,
    private readonly notes: Notebook,
    private readonly grace: Grace,
    private readonly clock: () => Date = () => new Date(),
  ) {
    this.id = job.id;
    this.fence = job.fence;
    this.limited = job.limited ?? false;
    this.taken = performance.now();
  }

  /**
   * Runs the task. `end` gets the outcome to be settled as JSON, or `null` if there is nothing to settle; `over` is called when
   * the task has returned, which may be later: one that does not stop when it is asked to is abandoned, and keeps its slot.
   */
  start(task: Task, around: Around | undefined, end: (outcome: string | null) => void, over: () => void): void {
    this.#begun = performance.now();
    const once = (outcome: string | null) => {
      if (this.#ended) return;
      this.#ended = true;
      clearTimeout(this.#timeout);
      end(outcome);
    };
    this.#abandoned = once;
    const { timeout_ms: timeout } = this.job;
    // A longer one is left to the server.
    if (timeout != null && timeout <= LONGEST_TIMER) this.#timeout = setTimeout(() => this.stop("timed_out"), timeout);
    this.#call(task, around).then(
      (value) => {
        once(this.#outcome(() => returned(value), true));
        over();
      },
      (error: unknown) => {
        once(this.#outcome(() => thrown(error), false));
        over();
      },
    );
  }

  async #call(task: Task, around: Around | undefined): Promise<unknown> {
    const ctx = new Ctx(this);
    const call = () => task.run(this.job.args, ctx);
    return within(this.#trace(), around === undefined ? call : () => around(ctx, async () => call()));
  }

  /** What counts of a task's own words, now that it has perhaps been asked to stop. */
  #outcome(own: () => string, succeeded: boolean): string | null {
    switch (this.#stop) {
      case null:
        return own();
      case "gone":
        return null;
      case "timed_out":
        return TIMED_OUT;
      // It came to its end all the same: that counts, as far as the server lets it.
      case "cancelled":
        return succeeded ? own() : CANCELLED;
      case "stopping":
      case "doubt":
        return succeeded ? own() : INTERRUPTED;
    }
  }

  /** Asks the task to stop. The first reason counts, but for `gone`, after which nothing is settled. */
  stop(reason: StopReason): void {
    if (this.#stop !== null) {
      if (reason === "gone") this.#stop = reason;
      return;
    }
    this.#stop = reason;
    if (this.#begun === 0 || this.#ended) return;
    clearTimeout(this.#timeout);
    this.#timeout = setTimeout(
      () => this.#abandoned?.(this.#outcome(() => INTERRUPTED, false)),
      reason === "timed_out" ? this.grace.timeout : this.grace.stop,
    );
    this.#controller?.abort(new Stopped(reason));
  }

  /** Its end is settled, or will not be; the task may go on if it does not stop when it is asked to. */
  get ended(): boolean {
    return this.#ended;
  }

  /** How long it has run, in milliseconds; `null`: it has not begun. */
  ran(): number | null {
    return this.#begun === 0 ? null : Math.max(0, Math.round(performance.now() - this.#begun));
  }

  get attempt(): number {
    return this.job.attempt;
  }

  get task(): string {
    return this.job.task;
  }

  get queue(): string {
    return this.job.queue;
  }

  get group(): string {
    return this.job.group;
  }

  get traceparent(): string | null {
    return this.job.traceparent ?? null;
  }

  get tracestate(): string | null {
    return this.job.tracestate ?? null;
  }

  #trace(): Trace | null {
    const { traceparent, tracestate } = this.job;
    if (!traceparent) return null;
    return tracestate ? { traceparent, tracestate } : { traceparent };
  }

  // Made when it is asked for: most tasks never do.
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#stop !== null) this.#controller.abort(new Stopped(this.#stop));
    }
    return this.#controller.signal;
  }

  get steps(): Map<string, unknown> {
    this.#steps ??= new Map(Object.entries(this.job.steps ?? {}));
    return this.#steps;
  }

  progress(done: number, total: number, text: string): void {
    // The server takes whole numbers only.
    const count = (value: number) => Math.max(0, Math.trunc(value)) || 0;
    this.notes.progress(this, { done: count(done), total: count(total), text });
  }

  log(level: Level, text: string): void {
    const time = this.clock().toISOString();
    if (this.notes.line(this, { number: this.#line, level, text, time })) this.#line++;
  }

  finishStep(name: string, result: unknown): Promise<void> {
    let json: string;
    try {
      json = JSON.stringify(result) ?? "null";
    } catch (error) {
      throw new TypeError(`the result of step ${JSON.stringify(name)} is no JSON: ${describe(error)}`);
    }
    return this.notes.step(this, name, json);
  }

  now(): Date {
    return this.clock();
  }
}

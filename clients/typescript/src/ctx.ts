//! What a task sees of its run.

import { pause } from "./connection.js";
import { snooze } from "./outcome.js";
import type { Level } from "./protocol.js";
import { spanMs, type Span } from "./span.js";

/** A sleep up to this long keeps its slot; a longer one gives it back. As in Rust. */
const MOMENT = 1_000;

/** A run as its context uses it. */
export interface Running {
  readonly id: string;
  readonly fence: number;
  readonly attempt: number;
  readonly task: string;
  readonly queue: string;
  readonly group: string;
  readonly traceparent: string | null;
  readonly tracestate: string | null;
  readonly signal: AbortSignal;
  /** Results of finished steps, by name. */
  readonly steps: Map<string, unknown>;
  progress(done: number, total: number, text: string): void;
  log(level: Level, text: string): void;
  /** Returns when the step's result is stored. */
  finishStep(name: string, result: unknown): Promise<void>;
  now(): Date;
}

/** The run of a job, given to its task. */
export class Ctx {
  readonly #run: Running;
  readonly #begun = new Map<string, Promise<unknown>>();
  #sleeps = 0;

  /** @internal */
  constructor(run: Running) {
    this.#run = run;
  }

  /** The job's id. */
  get id(): string {
    return this.#run.id;
  }

  /** Another number each time the job is given out: what a run writes elsewhere can be guarded by it. */
  get fence(): number {
    return this.#run.fence;
  }

  /** 1 for the first run. */
  get attempt(): number {
    return this.#run.attempt;
  }

  get task(): string {
    return this.#run.task;
  }

  get queue(): string {
    return this.#run.queue;
  }

  get group(): string {
    return this.#run.group;
  }

  /** The trace that the job belongs to, as W3C's header has it. Jobs that this run submits belong to it, too. */
  get traceparent(): string | null {
    return this.#run.traceparent;
  }

  /** What other systems say about the trace. */
  get tracestate(): string | null {
    return this.#run.tracestate;
  }

  /** Aborted when the run is to stop; its reason is a `Stopped`. To be handed to `fetch` and all that takes a signal. */
  get signal(): AbortSignal {
    return this.#run.signal;
  }

  /** Whether the run is to stop, for whatever reason. */
  get stopped(): boolean {
    return this.#run.signal.aborted;
  }

  /** How far the run has come. */
  progress(done: number, total: number, text = ""): void {
    this.#run.progress(done, total, text);
  }

  /** Writes a line into the job's log. */
  log(text: string, level: Level = "info"): void {
    this.#run.log(level, text);
  }

  /**
   * Runs a step once and keeps its result, which must be JSON: a retry, or another node, goes on after the last finished step.
   *
   * At least once: if the process dies between the end of the step and its being stored, the step runs again.
   */
  async step<T>(name: string, run: () => T | Promise<T>): Promise<T> {
    if (this.#run.steps.has(name)) return this.#run.steps.get(name) as T;
    const begun = this.#begun.get(name) ?? this.#finish(name, run);
    this.#begun.set(name, begun);
    return (await begun) as T;
  }

  async #finish<T>(name: string, run: () => T | Promise<T>): Promise<T | null> {
    try {
      const value = (await run()) ?? null;
      this.#run.signal.throwIfAborted();
      await this.#run.finishStep(name, value);
      this.#run.steps.set(name, value);
      return value;
    } finally {
      // A step that failed may be tried again within this run.
      this.#begun.delete(name);
    }
  }

  /**
   * Sleeps. Longer than a second, the run ends here and its slot is free for others; when the time has come the task starts from
   * its beginning, finished steps are not run again, and this returns at once. So what must not be done twice belongs into a step.
   *
   * It ends the run by throwing: a `catch` around it has to let an `Outcome` pass.
   */
  async sleep(span: Span): Promise<void> {
    const ms = spanMs(span);
    if (ms <= MOMENT) return pause(ms, this.signal);
    const name = `sleep ${++this.#sleeps}`;
    const wake = await this.step(name, () => new Date(this.#run.now().getTime() + ms).toISOString());
    const left = new Date(wake).getTime() - this.#run.now().getTime();
    if (left > 0) throw snooze(Math.ceil(left));
  }
}

//! Tasks: a name, a function, and what the fleet is told about it.

import type { Ctx } from "./ctx.js";
import type { Outcome } from "./outcome.js";
import type { JobOptions, JobRequest } from "./request.js";
import { spanText, type Span } from "./span.js";

/** What holds for all jobs of a task that do not say otherwise. */
export interface TaskFacts {
  /** The retry policy, such as `exponential:10s,5`. */
  retry?: string;
  /** How long a run may take. */
  timeout?: Span;
  /** The task that a job goes on as when its retries run out. */
  onExhausted?: string;
  /** JSON pointers to fields of the arguments that are shown to nobody. */
  secret?: string[];
}

/** A function of the task. `undefined` ends as a success without a result. */
export type TaskFunction<Args, Result> = (args: Args, ctx: Ctx) => Result | Outcome | Promise<Result | Outcome>;

/** A task that a worker runs, and by which its jobs are submitted with the right arguments. */
export class Task<Args = any, Result = unknown> {
  /** @internal */
  declare readonly result?: Result;

  constructor(
    readonly name: string,
    readonly facts: TaskFacts,
    readonly run: TaskFunction<Args, Result>,
  ) {}

  /** A job of this task, to be submitted or to go on as. */
  job(args: Args, options: JobOptions = {}): JobRequest {
    return { ...options, task: this.name, args };
  }

  /** @internal */
  wire(): Record<string, unknown> {
    const { retry, timeout, onExhausted, secret } = this.facts;
    return { retry, timeout: timeout === undefined ? undefined : spanText(timeout), on_exhausted: onExhausted, secret };
  }
}

/** Makes a task of a function. */
export function task<Args = any, Result = void>(name: string, run: TaskFunction<Args, Result>): Task<Args, Result>;
export function task<Args = any, Result = void>(name: string, facts: TaskFacts, run: TaskFunction<Args, Result>): Task<Args, Result>;
export function task(name: string, first: TaskFacts | TaskFunction<any, unknown>, second?: TaskFunction<any, unknown>): Task {
  return typeof first === "function" ? new Task(name, {}, first) : new Task(name, first, second!);
}

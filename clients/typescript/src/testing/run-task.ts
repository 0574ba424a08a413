//! One run of a task, without a server.

import type { Notebook } from "../notes.js";
import type { Level, Progress } from "../protocol.js";
import { newId } from "../id.js";
import { Run } from "../run.js";
import { spanMs, type Span } from "../span.js";
import type { Task } from "../task.js";

export interface RunOptions {
  /** Default: 1. */
  attempt?: number;
  queue?: string;
  group?: string;
  /** Results of steps that earlier runs have finished. */
  steps?: Record<string, unknown>;
  timeout?: Span;
  traceparent?: string;
  /** When it is aborted, the run is asked to stop as if the job was cancelled. */
  cancel?: AbortSignal;
  /** What the clock says: sleeps that are over by then return. */
  now?: Date;
}

/** What came of a run. */
export interface Ran<Result = any> {
  /** As it would be settled, such as `{outcome: "done", result: 3}` or `{outcome: "snooze", for: "10m"}`. */
  outcome: { outcome: string; result?: Result; error?: string; for?: string; job?: any };
  /** The result of an outcome `done`. */
  result: Result | undefined;
  log: string[];
  lines: { level: Level; text: string }[];
  progress: Progress | null;
  /** All steps that are finished by now; given to another `runTask`, that one goes on after them. */
  steps: Record<string, unknown>;
}

/** Runs a task once, inline. A retry is another call, with `attempt` and the `steps` of this one. */
export async function runTask<Args, Result>(task: Task<Args, Result>, args: Args, options: RunOptions = {}): Promise<Ran<Result>> {
  const ran: Ran<Result> = { outcome: { outcome: "interrupted" }, result: undefined, log: [], lines: [], progress: null, steps: { ...options.steps } };
  const notes: Notebook = {
    progress: (_, progress) => (ran.progress = progress),
    line: (_, { level, text }) => {
      ran.lines.push({ level, text });
      return ran.log.push(text) > 0;
    },
    step: async (_, name, json) => void (ran.steps[name] = JSON.parse(json)),
  };
  const timeout = options.timeout ?? task.facts.timeout;
  const job = {
    id: newId(),
    fence: 1,
    task: task.name,
    queue: options.queue ?? "default",
    group: options.group ?? "default",
    // As it would come over the wire.
    args: JSON.parse(JSON.stringify(args ?? null)),
    attempt: options.attempt ?? 1,
    timeout_ms: timeout === undefined ? null : spanMs(timeout),
    steps: ran.steps,
    traceparent: options.traceparent ?? null,
    tracestate: null,
  };
  const run = new Run(job, notes, { stop: 10_000, timeout: 2_500 }, () => options.now ?? new Date());
  const outcome = await new Promise<string | null>((resolve) => {
    run.start(task, undefined, resolve, () => {});
    const cancel = () => run.stop("cancelled");
    if (options.cancel?.aborted) cancel();
    else options.cancel?.addEventListener("abort", cancel, { once: true });
  });
  ran.outcome = JSON.parse(outcome!);
  ran.result = ran.outcome.result;
  return ran;
}

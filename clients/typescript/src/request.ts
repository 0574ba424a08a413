//! Jobs to submit, as a program writes them and as the server reads them.

import { spanText, type Span } from "./span.js";

/** How a job is to run. What is left out is as the server has it. */
export interface JobOptions {
  /** Default: `default`. */
  queue?: string;
  /** Whom the job belongs to; fairness is between groups. Default: `default`. */
  group?: string;
  /** The limit key. */
  key?: string;
  /** 1 (first) to 10 (last), `high` (3) or `low` (8). Default: 5. */
  priority?: number | "high" | "low";
  /** While another job holds this key, that one stands for this. */
  unique?: string;
  /** A unique key made from the task and its arguments; not together with `unique`. */
  uniqueByArgs?: boolean;
  /** For how long the key is held. Default: until the job has ended. */
  uniqueFor?: Span;
  /** What the key is unique within: `task` (default), `queue`, `group`, or a name of your own. */
  uniqueScope?: string;
  /** What happens while another job holds the key. Default: `keep`. */
  onDuplicate?: "keep" | "reject" | "replace-args";
  /** Which jobs it waits for: ids, and in a batch names (`as`), or `*` for all others. */
  after?: string | string[];
  /** What becomes of it if one of these fails. Default: `fail`. */
  onFailure?: "fail" | "run" | "cancel";
  /** What others of the same batch call it. */
  as?: string;
  /** Not before this moment. */
  at?: Date | string;
  /** Not before this long; not together with `at`. */
  in?: Span;
  /** If it has not begun after this long, it fails without having run. */
  expires?: Span;
  /** How long a run may take. */
  timeout?: Span;
  /** The retry policy, such as `exponential:10s,5`, `durations:10s,1m`, `manual` or `none`. */
  retry?: string;
  /** The task that it goes on as after a success, with the result as its arguments. */
  next?: string;
  /** The task that it goes on as, with the same arguments, when its retries run out. */
  onExhausted?: string;
  /** The trace that it belongs to. Default: that of the run that submits it. */
  traceparent?: string;
  tracestate?: string;
  /** A UUID of version 7 of the caller's choice, by which a repeated submit is recognised. Default: a new one. */
  id?: string;
}

/** A job to submit. */
export interface JobRequest extends JobOptions {
  task: string;
  /** Any JSON. Default: `null`. */
  args?: unknown;
}

const SPANS = new Set(["in", "expires", "timeout", "uniqueFor"]);

/** The names of the wire; a name that the server does not know is refused there, with its place. */
export function toWire(request: JobRequest): Record<string, unknown> {
  const wire: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(request)) {
    if (value !== undefined) wire[snake(name)] = SPANS.has(name) ? spanText(value as Span) : value;
  }
  return wire;
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Members as TypeScript writes them: `submitted_at` is `submittedAt`. Values stay as they are. */
export function fromWire(wire: Record<string, unknown>): Record<string, unknown> {
  const names = Object.entries(wire).map(([name, value]) => [name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), value]);
  return Object.fromEntries(names);
}

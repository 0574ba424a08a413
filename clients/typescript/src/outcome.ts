//! How a run ends, in a task's own words.

import { toWire, type JobRequest } from "./request.js";
import { spanText, type Span } from "./span.js";

/** An end that a task returns, or throws. Any other value that it returns is the job's result, any other that it throws an error. */
export class Outcome {
  /** @internal */
  constructor(
    readonly outcome: "fail" | "snooze" | "next" | "cancelled",
    /** @internal */
    readonly json: string,
  ) {}
}

/** Failed for good: no retry, whatever the policy is. */
export function fail(error: string | Error): Outcome {
  return new Outcome("fail", JSON.stringify({ outcome: "fail", error: describe(error) }));
}

/** Again after this long; spends no attempt. */
export function snooze(span: Span): Outcome {
  return new Outcome("snooze", JSON.stringify({ outcome: "snooze", for: spanText(span) }));
}

/** The same job goes on as another task, with that one's arguments, time, retries and timeout. */
export function next(job: JobRequest): Outcome {
  return new Outcome("next", JSON.stringify({ outcome: "next", job: toWire(job) }));
}

/** Stopped because it was asked to. */
export function cancelled(): Outcome {
  return new Outcome("cancelled", CANCELLED);
}

export const CANCELLED = '{"outcome":"cancelled"}';
export const TIMED_OUT = '{"outcome":"timed_out"}';
export const INTERRUPTED = '{"outcome":"interrupted"}';

/** What a task returned, as the server reads it. */
export function returned(value: unknown): string {
  if (value instanceof Outcome) return value.json;
  if (value === undefined) return '{"outcome":"done"}';
  try {
    const result = JSON.stringify(value);
    // A function, say.
    if (result === undefined) return '{"outcome":"done"}';
    return `{"outcome":"done","result":${result}}`;
  } catch (error) {
    // Another run would return the same.
    return fail(`the result is no JSON: ${describe(error)}`).json;
  }
}

/** What a task threw, as the server reads it. */
export function thrown(error: unknown): string {
  return error instanceof Outcome ? error.json : JSON.stringify({ outcome: "error", error: describe(error) });
}

/** Longest text of an error that is sent, in characters. */
const LONGEST = 16_384;

/** The message with its causes. */
export function describe(error: unknown): string {
  const said: string[] = [];
  for (let next = error; next !== undefined && next !== null && said.length < 20; next = next instanceof Error ? next.cause : undefined) {
    said.push(next instanceof Error ? nameOf(next) : readable(next));
  }
  return (said.join(": ") || "thrown without a value").slice(0, LONGEST);
}

function nameOf(error: Error): string {
  if (error.message === "") return error.name;
  return error.name === "Error" ? error.message : `${error.name}: ${error.message}`;
}

function readable(value: unknown): string {
  try {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  } catch {
    return Object.prototype.toString.call(value);
  }
}

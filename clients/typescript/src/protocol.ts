//! What a worker and a server tell each other: docs/workers.md.

/** The version of the protocol that this client speaks. */
export const PROTOCOL = 1;

/** What the servers show to people. Tests compare it with the package's version. */
export const CLIENT = "turnwise-typescript 0.1.0";

/** A job in a worker's hands. The fence is another one each time the job is given out. */
export interface Named {
  id: string;
  fence: number;
}

export interface Registered {
  worker: string;
  protocol: number;
  lease_ms: number;
  beat_ms: number;
  grace_ms: number;
  /** `null`: all. */
  queues: string[] | null;
  tasks: string[];
}

export interface TakenJob extends Named {
  task: string;
  queue: string;
  group: string;
  args: unknown;
  attempt: number;
  timeout_ms?: number | null;
  limited?: boolean;
  steps?: Record<string, unknown>;
  traceparent?: string | null;
  tracestate?: string | null;
}

export interface Stop extends Named {
  reason: "cancelled" | "timed_out" | "gone";
}

export interface Taken {
  jobs: TakenJob[];
  stop: Stop[];
}

export interface Beaten {
  lease_ms: number;
  stop: Stop[];
}

export type Level = "debug" | "info" | "warn" | "error";

export interface Line {
  number: number;
  level: Level;
  text: string;
  time: string;
}

export interface Progress {
  done: number;
  total: number;
  text: string;
}

export interface Note extends Named {
  progress?: Progress;
  lines?: Line[];
  steps?: { name: string; result: unknown }[];
}

export interface NoteAnswer extends Named {
  answer: "applied" | "stale" | "locked" | "gone" | "invalid";
  detail?: string;
}

export interface EndAnswer extends Named {
  answer: "applied" | "stale" | "gone" | "invalid" | "locked";
  state?: string;
  detail?: string;
}

/** Most ends in one settle. */
export const MOST_ENDS = 1_000;
/** Longest line of a log in bytes; the server cuts longer ones. */
export const LONGEST_LINE = 4 * 1024;

export function keyOf({ id, fence }: Named): string {
  return `${id}/${fence}`;
}

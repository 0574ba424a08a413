//! Jobs and workers in memory: what the tests of a worker need of a server, by docs/workers.md. Turns, weights and limits are not here.

import { newId } from "../id.js";
import type { EndAnswer, Named, Note, NoteAnswer, Stop, TakenJob } from "../protocol.js";
import { spanMs } from "../span.js";

export interface StoredJob {
  id: string;
  request: Record<string, any>;
  task: string;
  args: unknown;
  state: "waiting" | "scheduled" | "running" | "stuck" | "success" | "failed" | "cancelled";
  fence: number;
  /** Runs that have ended by themselves. */
  attempt: number;
  tried: number;
  due: number;
  worker: string | null;
  taken: number | null;
  cancelRequested: boolean;
  result: unknown;
  error: string | null;
  attempts: Record<string, unknown>[];
  lines: { run: number; line: number; at: string; level: string; text: string }[];
  steps: Record<string, unknown>;
  progress: unknown;
  submitted: number;
  finished: number | null;
  /** By which end it came to where it is. */
  settledBy: { worker: string; fence: number } | null;
  timedOut: number | null;
  limited: boolean;
}

export interface StoredWorker {
  id: string;
  name: string;
  slots: number;
  buffer: number;
  queues: string[] | null;
  lease: number;
  tasks: Record<string, any>;
  until: number;
  over: "left" | "lost" | null;
  facts: Record<string, any>;
}

const ENDED = new Set(["success", "failed", "cancelled"]);
const DEFAULT_RETRY = "exponential:10s,5";

export class MemoryStore {
  readonly jobs = new Map<string, StoredJob>();
  readonly workers = new Map<string, StoredWorker>();
  /** Moved forward by tests. */
  offset = 0;

  constructor(
    readonly grace: number,
    /** A job was assigned to this worker, or one of its jobs is to stop; or a job has ended (`null`). */
    private readonly ring: (worker: string | null) => void,
  ) {}

  now(): number {
    return Date.now() + this.offset;
  }

  submit(requests: Record<string, any>[]): { id: string; new: boolean; duplicate: string | null }[] {
    const names = new Map<string, string>();
    const answers = requests.map((request) => {
      const known = request.id === undefined ? undefined : this.jobs.get(request.id);
      if (known) return { id: known.id, new: false, duplicate: null };
      const scope = (other: Record<string, any>) => `${other.unique_scope ?? "task"} ${other.task} ${other.unique}`;
      const holder = request.unique && [...this.jobs.values()].find((job) => job.request.unique && !ENDED.has(job.state) && scope(job.request) === scope(request));
      if (holder) return { id: holder.id, new: false, duplicate: "kept" };
      const id = request.id ?? newId();
      if (request.as) names.set(request.as, id);
      const due = request.at ? new Date(request.at).getTime() : this.now() + (request.in ? spanMs(request.in) : 0);
      this.jobs.set(id, {
        id, request, due, task: request.task, args: request.args ?? null, state: "waiting", fence: 0, attempt: 0, tried: 0, worker: null,
        taken: null, cancelRequested: false, result: null, error: null, attempts: [], lines: [], steps: {}, progress: null,
        submitted: this.now(), finished: null, settledBy: null, timedOut: null, limited: false,
      });
      return { id, new: true, duplicate: null };
    });
    for (const { id } of answers) {
      const { request } = this.jobs.get(id)!;
      const after: string[] = request.after === undefined ? [] : [request.after].flat();
      request.after = after.flatMap((name) => (name === "*" ? answers.map((answer) => answer.id).filter((other) => other !== id) : [names.get(name) ?? name]));
    }
    this.dispatch();
    return answers;
  }

  /** Gives waiting jobs to living workers that have room. */
  dispatch(): void {
    this.#expire();
    const rung = new Set<string>();
    const living = [...this.workers.values()].filter((worker) => worker.over === null && worker.slots > 0);
    const room = new Map(living.map((worker) => [worker.id, worker.slots + worker.buffer - this.hands(worker.id).length]));
    for (const job of this.jobs.values()) {
      if (!this.#ready(job)) continue;
      const worker = living.find((worker) => room.get(worker.id)! > 0 && serves(worker, job));
      if (worker === undefined) continue;
      room.set(worker.id, room.get(worker.id)! - 1);
      Object.assign(job, { state: "scheduled", worker: worker.id, fence: job.fence + 1, taken: null, cancelRequested: false, timedOut: null });
      rung.add(worker.id);
    }
    rung.forEach((worker) => this.ring(worker));
  }

  /** When something happens by itself: a job is due, a lease ends, a run is over time. */
  next(): number {
    const times: number[] = [];
    for (const job of this.jobs.values()) {
      if ((job.state === "waiting" || job.state === "stuck") && job.due > this.now()) times.push(job.due);
      if (job.taken !== null && this.#timeout(job) !== null) times.push(job.taken + this.#timeout(job)! + this.grace);
    }
    for (const worker of this.workers.values()) if (worker.over === null) times.push(worker.until);
    return Math.min(...times, Infinity);
  }

  #ready(job: StoredJob): boolean {
    if ((job.state !== "waiting" && job.state !== "stuck") || job.due > this.now()) return false;
    return (job.request.after ?? []).every((id: string) => this.jobs.get(id)?.state === "success");
  }

  hands(worker: string): StoredJob[] {
    return [...this.jobs.values()].filter((job) => job.worker === worker && (job.state === "scheduled" || job.state === "running"));
  }

  #expire(): void {
    const now = this.now();
    for (const worker of this.workers.values()) {
      if (worker.over !== null || worker.until > now) continue;
      worker.over = "lost";
      this.hands(worker.id).forEach((job) => this.#back(job));
      this.ring(worker.id);
    }
    for (const job of this.jobs.values()) {
      const timeout = this.#timeout(job);
      if (job.worker === null || job.taken === null || timeout === null || job.taken + timeout + this.grace > now) continue;
      const { worker } = job;
      this.#error(job, "timed out", "timed out");
      job.timedOut = job.fence;
      this.ring(worker);
    }
  }

  #timeout(job: StoredJob): number | null {
    if (job.worker === null) return null;
    const span = job.request.timeout ?? this.workers.get(job.worker)?.tasks[job.task]?.timeout;
    return span === undefined ? null : spanMs(span);
  }

  #back(job: StoredJob): void {
    Object.assign(job, { state: "waiting", worker: null, taken: null });
    if (job.cancelRequested) this.#end(job, "cancelled");
  }

  #end(job: StoredJob, state: StoredJob["state"]): void {
    Object.assign(job, { state, worker: null, taken: null, finished: this.now() });
    this.ring(null);
  }

  register(facts: Record<string, any>): StoredWorker | null {
    this.#expire();
    const known = this.workers.get(facts.worker);
    if (known?.over === null) return known;
    const taken = [...this.workers.values()].find(({ name, over }) => name === facts.name && over === null);
    if (taken) return null;
    const lease = facts.lease_ms ?? 30_000;
    const worker: StoredWorker = {
      id: facts.worker ?? newId(), name: facts.name, slots: facts.slots, buffer: facts.buffer ?? 0, queues: facts.queues ?? null, lease,
      tasks: facts.tasks, until: this.now() + lease, over: null, facts,
    };
    this.workers.set(worker.id, worker);
    this.dispatch();
    return worker;
  }

  /** What is assigned and missing there, and what is to stop. */
  mail(worker: StoredWorker, held: Named[], n: number): { jobs: TakenJob[]; stop: Stop[] } {
    const has = (job: StoredJob) => held.some(({ id, fence }) => id === job.id && fence === job.fence);
    const missing = this.hands(worker.id).filter((job) => !has(job)).slice(0, n);
    for (const job of missing) job.taken ??= this.now();
    return { jobs: missing.map((job) => this.#taken(job)), stop: this.stops(worker, held) };
  }

  stops(worker: StoredWorker, held: Named[]): Stop[] {
    return held.flatMap(({ id, fence }): Stop[] => {
      const job = this.jobs.get(id);
      if (job?.timedOut === fence) return [{ id, fence, reason: "timed_out" }];
      if (job === undefined || job.worker !== worker.id || job.fence !== fence) return [{ id, fence, reason: "gone" }];
      return job.cancelRequested ? [{ id, fence, reason: "cancelled" }] : [];
    });
  }

  #taken(job: StoredJob): TakenJob {
    const { id, fence, task, args, attempt, limited, steps, request } = job;
    const timeout_ms = this.#timeout(job);
    return {
      id, fence, task, args, limited, steps, timeout_ms, attempt: attempt + 1, queue: request.queue ?? "default", group: request.group ?? "default",
      ...(request.traceparent && { traceparent: request.traceparent }),
      ...(request.tracestate && { tracestate: request.tracestate }),
    };
  }

  note(worker: StoredWorker, { id, fence, progress, lines = [], steps = [] }: Note): NoteAnswer {
    const job = this.jobs.get(id);
    if (job === undefined || job.worker !== worker.id || job.fence !== fence) return { id, fence, answer: "stale" };
    if (progress) job.progress = progress;
    for (const { number, time, level, text } of lines) {
      if (!job.lines.some((known) => known.run === fence && known.line === number)) job.lines.push({ run: fence, line: number, at: time, level, text });
    }
    for (const { name, result } of steps) if (!Object.hasOwn(job.steps, name)) job.steps[name] = result;
    return { id, fence, answer: "applied" };
  }

  settle(worker: StoredWorker, end: { id: string; fence: number; ran_ms?: number; outcome: Record<string, any> }): EndAnswer {
    const { id, fence } = end;
    const job = this.jobs.get(id);
    if (job === undefined) return { id, fence, answer: "gone" };
    if (job.settledBy?.worker === worker.id && job.settledBy.fence === fence) return { id, fence, answer: "applied", state: job.state };
    if (job.worker !== worker.id || job.fence !== fence) return { id, fence, answer: "stale" };
    this.#decide(job, end.outcome);
    job.settledBy = { worker: worker.id, fence };
    return { id, fence, answer: "applied", state: job.state };
  }

  #decide(job: StoredJob, outcome: Record<string, any>): void {
    const ran = ["done", "error", "fail", "timed_out", "cancelled", "next"].includes(outcome.outcome);
    if (job.cancelRequested && ran) {
      job.attempt++;
      return this.#end(job, "cancelled");
    }
    switch (outcome.outcome) {
      case "done":
        job.attempt++;
        job.result = outcome.result ?? null;
        if (job.request.next) return this.#goOn(job, { task: job.request.next, args: job.result });
        return this.#end(job, "success");
      case "error":
        return this.#error(job, "error", outcome.error);
      case "timed_out":
        return this.#error(job, "timed out", "timed out");
      case "fail":
        job.attempt++;
        this.#failed(job, "failed for good", outcome.error);
        return this.#end(job, "failed");
      case "snooze":
        Object.assign(job, { state: "waiting", worker: null, taken: null, due: this.now() + spanMs(outcome.for) });
        return;
      case "next":
        job.attempt++;
        return this.#goOn(job, outcome.job);
      case "cancelled":
        job.attempt++;
        return this.#end(job, "cancelled");
      default:
        return this.#back(job);
    }
  }

  #goOn(job: StoredJob, to: Record<string, any>): void {
    Object.assign(job, { task: to.task, args: to.args ?? null, state: "waiting", worker: null, taken: null, steps: {}, tried: 0 });
    job.due = this.now() + (to.in ? spanMs(to.in) : 0);
    const { id, after } = job.request;
    job.request = { ...job.request, next: undefined, ...to, id, after };
  }

  #failed(job: StoredJob, ending: string, error: string): void {
    job.error = error;
    job.attempts.push({ number: job.attempt, task: job.task, ending, node: job.worker, started_at: null, finished_at: null, error: [error], place: null, fingerprint: null });
  }

  #error(job: StoredJob, ending: string, error: string): void {
    job.attempt++;
    const facts = this.workers.get(job.worker!)?.tasks[job.task] ?? {};
    this.#failed(job, ending, error);
    const wait = pauseAfter(job.request.retry ?? facts.retry ?? DEFAULT_RETRY, job.tried++);
    const exhausted = job.request.on_exhausted ?? facts.on_exhausted;
    if (wait !== null) Object.assign(job, { state: "stuck", worker: null, taken: null, due: this.now() + wait });
    else if (exhausted) this.#goOn(job, { task: exhausted, args: job.args, on_exhausted: undefined });
    else this.#end(job, "failed");
  }

  cancel(job: StoredJob): "cancelled" | "cancel_requested" | null {
    if (ENDED.has(job.state)) return null;
    if (job.worker === null) {
      this.#end(job, "cancelled");
      return "cancelled";
    }
    job.cancelRequested = true;
    this.ring(job.worker);
    return "cancel_requested";
  }

  leave(worker: StoredWorker, back: Named[], held?: Named[]): { left: true } | { left: false; held: number } {
    const named = (jobs: Named[], job: StoredJob) => jobs.some(({ id, fence }) => id === job.id && fence === job.fence);
    for (const job of this.hands(worker.id)) {
      const keeps = held === undefined ? job.taken !== null : named(held, job);
      if (!keeps || named(back, job)) this.#back(job);
    }
    const left = this.hands(worker.id).length;
    if (left > 0) return { left: false, held: left };
    worker.over = "left";
    return { left: true };
  }
}

function serves(worker: StoredWorker, job: StoredJob): boolean {
  return Object.hasOwn(worker.tasks, job.task) && (worker.queues === null || worker.queues.includes(job.request.queue ?? "default"));
}

/** How long to wait after the `tried`-th failure, counted from 0; `null`: no retry is left. */
function pauseAfter(policy: string, tried: number): number | null {
  const [kind, terms = ""] = policy.split(":");
  if (kind === "manual") return Infinity;
  if (kind === "durations") {
    const span = terms.split(",")[tried];
    return span === undefined ? null : spanMs(span);
  }
  if (kind === "exponential") {
    const [first = "10s", most = "5"] = terms.split(",");
    return tried < Number(most) ? spanMs(first) * 2 ** tried : null;
  }
  return null;
}

//! What a caller does with jobs: submit, read, wait, decide.

import { readFileSync } from "node:fs";
import { Connection, pause, type Address } from "./connection.js";
import { newId } from "./id.js";
import { Busy, Invalid, TurnwiseError, Unreachable } from "./problem.js";
import { fromWire, toWire, type JobOptions, type JobRequest } from "./request.js";
import { spanMs, type Span } from "./span.js";
import { Task } from "./task.js";
import { currentTrace } from "./trace.js";

/** What became of a submitted job. */
export interface Submitted {
  /** The job that stands for it: itself, or the one that holds its unique key. */
  id: string;
  /** `false`: it was there already, or another job stands for it. */
  new: boolean;
  /** How another job stands for it; `null`: none does. */
  duplicate: "kept" | "replaced" | "too_late" | "other_task" | null;
}

export type State = "waiting" | "scheduled" | "running" | "stuck" | "success" | "failed" | "cancelled";

/** A run that did not end well, or after which the job went on as another task. */
export interface Attempt {
  number: number;
  task: string;
  ending: string;
  node: string | null;
  startedAt: string | null;
  finishedAt: string | null;
  /** What went wrong, then each cause. */
  error: string[] | null;
  place: string | null;
  fingerprint: string | null;
}

/** A job with what is kept of it. Times are RFC 3339 in UTC: `new Date(job.submittedAt)`. */
export interface Job<Result = any> {
  id: string;
  task: string;
  queue: string;
  group: string;
  key: string | null;
  unique: string | null;
  uniqueScope: string | null;
  uniqueUntil: string | null;
  priority: number;
  state: State;
  attempt: number;
  retriesLeft: number | null;
  args: any;
  result: Result;
  error: string | null;
  fingerprint: string | null;
  node: string | null;
  submittedAt: string;
  dueAt: string | null;
  assignedAt: string | null;
  startedAt: string | null;
  finishedAt: string | null;
  expiresAt: string | null;
  retry: string | null;
  timeout: string | null;
  onExhausted: string | null;
  next: string | null;
  cancelRequested: boolean;
  /** What holds it up. */
  waitsFor: string[];
  schedule: string | null;
  traceparent: string | null;
  progress: { done: number; total: number; text: string } | null;
  /** Results of the steps that are done, by name. */
  steps: Record<string, unknown>;
  after: string[];
  onFailure: string | null;
  awaitedBy: string[];
  attempts: Attempt[];
}

/** A line of a job's log. */
export interface LogLine {
  at: string;
  level: "error" | "warn" | "info" | "debug" | "trace";
  run: number;
  line: number;
  text: string;
}

/** What a decision came to. */
export interface Decided {
  id: string;
  decided: "cancelled" | "cancel_requested" | "waiting" | "failed" | "changed";
}

/** A job has not ended within the time that the caller was ready to wait. */
export class NotEnded extends TurnwiseError {
  override name = "NotEnded";
  constructor(readonly job: Job) {
    super(`job ${job.id} has not ended, it is ${job.state}`);
  }
}

export interface TurnwiseOptions extends Partial<Address> {
  /** For how long a request is repeated that no server answers, or that is to be repeated later. Default: 30 s. */
  patience?: Span;
}

export interface SubmitOptions extends JobOptions {
  /** Within 24 hours requests with this key are carried out once, and each repeat gets the first answer. */
  idempotencyKey?: string;
}

/** Longest time that a server waits for the end of a job within one request, in seconds. */
const LONGEST_WAIT = 30;
const ENDED = new Set<State>(["success", "failed", "cancelled"]);

/** One Turnwise installation, reached over HTTP. It keeps nothing open: it need not be closed. */
export class Turnwise {
  /** @internal */
  readonly connection: Connection;
  readonly #patience: number;
  /** A server found ids of this machine's clock to be of the future. */
  #clockIsAhead = false;

  /** A token may be `@FILE`, the file that has it. Without a URL, it and the token are those of `TURNWISE_SERVER` and `TURNWISE_TOKEN`. */
  constructor(options: TurnwiseOptions = {}) {
    const url = options.url ?? process.env.TURNWISE_SERVER;
    if (url === undefined) throw new TurnwiseError("the address of the server is missing; give url, or set TURNWISE_SERVER");
    // The token of one server is not given to another one.
    const token = options.token ?? (options.url === undefined ? process.env.TURNWISE_TOKEN : undefined);
    this.connection = new Connection({ url, token: token?.startsWith("@") ? readFileSync(token.slice(1), "utf8").trim() : token });
    this.#patience = spanMs(options.patience ?? "30s");
  }

  /**
   * Submits one job. When this returns, the job is stored as durably as the database stores anything.
   *
   * It is repeated while no server answers; the job is stored once. If it throws `Unreachable` or `Busy`, it may be stored: the
   * same call with the same `id` or `idempotencyKey` is safe.
   */
  async submit<Args>(task: Task<Args>, args: Args, options?: SubmitOptions): Promise<Submitted>;
  async submit(task: string, args?: unknown, options?: SubmitOptions): Promise<Submitted>;
  async submit(job: JobRequest, options?: { idempotencyKey?: string }): Promise<Submitted>;
  async submit(first: Task | string | JobRequest, second?: unknown, third: SubmitOptions = {}): Promise<Submitted> {
    if (first instanceof Task || typeof first === "string") {
      const { idempotencyKey, ...options } = third;
      const name = typeof first === "string" ? first : first.name;
      return this.#submit("/jobs", [{ ...options, task: name, args: second }], idempotencyKey, ([job]) => job, (answer) => [answer]).then(([one]) => one!);
    }
    const { idempotencyKey } = Object(second) as { idempotencyKey?: string };
    return this.#submit("/jobs", [first], idempotencyKey, ([job]) => job, (answer) => [answer]).then(([one]) => one!);
  }

  /** Submits all of these jobs or none, at most 10,000. Within them, `after` may name another one by its `as`. */
  async submitMany(jobs: JobRequest[], options: { idempotencyKey?: string } = {}): Promise<Submitted[]> {
    if (jobs.length === 0) return [];
    return this.#submit("/jobs/batch", jobs, options.idempotencyKey, (jobs) => ({ jobs }), (answer) => answer.jobs);
  }

  async #submit(
    path: string,
    jobs: JobRequest[],
    key: string | undefined,
    body: (wire: Record<string, unknown>[]) => unknown,
    read: (answer: any) => Submitted[],
  ): Promise<Submitted[]> {
    const trace = currentTrace();
    const given = jobs.map((job) => toWire(job.traceparent === undefined ? { ...trace, ...job } : job));
    const own = new Set<string>();
    const name = (wire: Record<string, unknown>) => {
      if (wire.id !== undefined) return wire;
      const id = newId();
      own.add(id);
      return { ...wire, id };
    };
    const send = (jobs: Record<string, unknown>[], key: string | undefined) =>
      this.connection.ask("POST", path, {
        body: JSON.stringify(body(jobs)),
        patience: this.#patience,
        headers: key === undefined ? {} : { "idempotency-key": key },
      });
    // An id, or a key, tells a repeat from another submit.
    if (key !== undefined) return read(await send(given, key));
    if (this.#clockIsAhead) return read(await send(given, newId()));
    try {
      const answers = read(await send(given.map(name), undefined));
      // A repeat finds the job of the first try.
      return answers.map((answer) => (own.has(answer.id) ? { ...answer, new: true } : answer));
    } catch (error) {
      if (!(error instanceof Invalid) || own.size === 0 || !error.errors.some(({ path }) => /(^|\/)id$/.test(path))) throw error;
      const answers = read(await send(given, newId()));
      this.#clockIsAhead = true;
      return answers;
    }
  }

  /** The job as it is. Throws `NotFound` if there is none, or nothing is kept of it any more. */
  async job(id: string): Promise<Job> {
    return toJob(await this.#get(`/jobs/${encodeURIComponent(id)}`));
  }

  /** The job when it has ended, however that was. Throws `NotEnded` if that is not within the time `for` (default: without end). */
  async wait<Result = any>(id: string, options: { for?: Span; signal?: AbortSignal } = {}): Promise<Job<Result>> {
    const until = options.for === undefined ? Infinity : performance.now() + spanMs(options.for);
    for (;;) {
      const left = Math.max(0, until - performance.now());
      const wait = Math.min(LONGEST_WAIT, Math.ceil(left / 1_000));
      let job: Job;
      try {
        job = toJob(await this.#get(`/jobs/${encodeURIComponent(id)}?wait=${wait}s`, options.signal, (LONGEST_WAIT + 30) * 1_000));
      } catch (error) {
        // Too many wait already, or a server is deployed: the end is worth waiting for.
        if (!(error instanceof Busy || error instanceof Unreachable) || performance.now() >= until) throw error;
        await pause(1_000, options.signal);
        continue;
      }
      if (ENDED.has(job.state)) return job;
      if (performance.now() >= until) throw new NotEnded(job);
    }
  }

  /** The job's log, from its beginning or from `next` of an earlier page. */
  async log(id: string, options: { after?: string; limit?: number } = {}): Promise<{ lines: LogLine[]; dropped: number; next: string | null }> {
    return this.#get(`/jobs/${encodeURIComponent(id)}/log${query(options)}`);
  }

  /** A page of jobs, newest first. `filter` is in the filter language; `next` of a page is the `cursor` of the following one. */
  async jobs(
    options: { state?: State | State[]; queue?: string; group?: string; task?: string; filter?: string; limit?: number; cursor?: string } = {},
  ): Promise<{ jobs: Job[]; next: string | null }> {
    const page = await this.#get(`/jobs${query({ ...options, state: options.state?.toString() })}`);
    return { jobs: page.jobs.map(toJob), next: page.next };
  }

  /** A job that waits ends at once; one that runs is asked to stop. Throws `Conflict` if it has ended. */
  async cancel(id: string): Promise<Decided> {
    return this.#decide(id, "cancel");
  }

  /** Runs a stuck job now, and a failed or cancelled one again. */
  async retry(id: string): Promise<Decided> {
    return this.#decide(id, "retry");
  }

  #decide(id: string, what: string): Promise<Decided> {
    return this.connection.ask("POST", `/jobs/${encodeURIComponent(id)}/${what}`, { patience: this.#patience });
  }

  #get(path: string, signal?: AbortSignal, within?: number): Promise<any> {
    return this.connection.ask("GET", path, { patience: this.#patience, signal, ...(within && { within }) });
  }
}

function toJob(wire: Record<string, any>): Job {
  const job = fromWire(wire) as unknown as Job;
  // A listing leaves these out.
  if (wire.attempts) job.attempts = wire.attempts.map(fromWire);
  return job;
}

function query(values: Record<string, string | number | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

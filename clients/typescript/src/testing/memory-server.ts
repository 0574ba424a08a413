//! A server in this process that keeps all in memory, speaks the protocol of docs/workers.md, and can be made to answer badly.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Named } from "../protocol.js";
import { spanMs, type Span } from "../span.js";
import { MemoryStore, type StoredJob, type StoredWorker } from "./memory-store.js";

export interface MemoryServerOptions {
  /** Without it nothing is asked for. */
  token?: string;
  /** How long a task has to stop. Default: 10 s. */
  grace?: Span;
  /** Default: any free one. */
  port?: number;
}

/**
 * What goes wrong with requests:
 * - `request`: it does not arrive, and the connection breaks
 * - `reply`: it is carried out, and the connection breaks before the answer
 * - `twice`: it is carried out twice, and the second answer is given
 * - a number: it is refused with this status
 */
export type Trouble = "request" | "reply" | "twice" | number;

class Refused extends Error {
  constructor(
    readonly status: number,
    readonly word: string,
    detail: string,
    readonly path?: string,
  ) {
    super(detail);
  }
}

interface Take {
  worker: StoredWorker;
  n: number;
  held: Named[];
  answer: (taken: unknown) => void;
}

export class MemoryServer {
  readonly #store: MemoryStore;
  readonly #server: Server;
  readonly #options: MemoryServerOptions;
  readonly #takes = new Map<string, Take>();
  #waiting: (() => void)[] = [];
  readonly #troubles: { verb: string; trouble: Trouble; times: number }[] = [];
  readonly #counts = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  url = "";

  private constructor(options: MemoryServerOptions) {
    this.#options = options;
    this.#store = new MemoryStore(spanMs(options.grace ?? "10s"), (worker) => this.#ring(worker));
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  /** Listens on an address of its own, to be given to `new Turnwise({ url: server.url })`. */
  static async start(options: MemoryServerOptions = {}): Promise<MemoryServer> {
    const server = new MemoryServer(options);
    await new Promise<void>((resolve) => server.#server.listen(options.port ?? 0, "127.0.0.1", resolve));
    server.url = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}`;
    return server;
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    for (const take of this.#takes.values()) take.answer({ jobs: [], stop: [] });
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Moves the clock of the server forward: due times and leases go by it. */
  advance(span: Span): void {
    this.#store.offset += spanMs(span);
    this.#changed();
  }

  /**
   * The next requests of this verb go wrong: `register`, `take`, `beat`, `note`, `settle`, `leave`, `submit`, or a path of the API.
   * Several troubles of one verb come one after the other.
   */
  trouble(verb: string, trouble: Trouble, times = 1): void {
    this.#troubles.push({ verb, trouble, times });
  }

  /** No request is answered until this is called with `false`. */
  set away(away: boolean) {
    this.#away = away;
    if (away) this.#server.closeAllConnections();
  }
  #away = false;

  /** How many requests of this verb have come. */
  count(verb: string): number {
    return this.#counts.get(verb) ?? 0;
  }

  /** How often a job was given to a worker. */
  fence(id: string): number {
    return this.#store.jobs.get(id)?.fence ?? 0;
  }

  /** Marks jobs of this task as such that a limit counts. */
  limit(task: string): void {
    this.#limited.add(task);
  }
  readonly #limited = new Set<string>();

  /** What the workers registered with, in their order. */
  get workers(): Record<string, any>[] {
    return [...this.#store.workers.values()].map(({ facts, slots, over }) => ({ ...facts, slots, over }));
  }

  /** Declares all workers lost, as if their leases were over. */
  loseWorkers(): void {
    for (const worker of this.#store.workers.values()) worker.until = 0;
    this.#changed();
  }

  /** Returns when a job is in one of these states. */
  until(id: string, ...states: StoredJob["state"][]): Promise<void> {
    return this.when(() => states.includes(this.#store.jobs.get(id)?.state ?? "waiting"));
  }

  /** Returns when this is so; looks with each request and each time that something changes by itself. */
  async when(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #changed(): void {
    this.#store.dispatch();
    this.#tell();
    clearTimeout(this.#timer);
    const next = this.#store.next();
    if (next < Infinity) this.#timer = setTimeout(() => this.#changed(), Math.max(1, next - this.#store.now())).unref();
  }

  #tell(): void {
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }

  #ring(worker: string | null): void {
    const take = worker === null ? undefined : this.#takes.get(worker);
    if (take !== undefined) setImmediate(() => this.#tryTake(take));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += chunk;
      const url = new URL(request.url ?? "/", this.url);
      const path = url.pathname.replace(/^\/api\/v1/, "");
      const verb = verbOf(request.method ?? "GET", path);
      this.#counts.set(verb, this.count(verb) + 1);
      this.#tell();
      const trouble = this.#away ? "request" : this.#troubleOf(verb);
      if (trouble === "request") return void request.socket.destroy();
      let [status, answer] = typeof trouble === "number" ? refusal(new Refused(trouble, "trouble", "trouble of the test")) : await this.#answer(request, verb, path, url, text);
      if (trouble === "twice") [status, answer] = await this.#answer(request, verb, path, url, text);
      this.#changed();
      if (trouble === "reply" || this.#away) return void request.socket.destroy();
      const headers: Record<string, string> = { "content-type": status < 300 ? "application/json" : "application/problem+json" };
      if (status === 429 || status === 503 || (status === 409 && verb === "register")) headers["retry-after"] = "0";
      response.writeHead(status, headers).end(JSON.stringify(answer));
    } catch {
      request.socket.destroy();
    }
  }

  #troubleOf(verb: string): Trouble | null {
    const found = this.#troubles.find((trouble) => trouble.verb === verb && trouble.times > 0);
    if (found === undefined) return null;
    found.times--;
    return found.trouble;
  }

  async #answer(request: IncomingMessage, verb: string, path: string, url: URL, text: string): Promise<[number, unknown]> {
    try {
      if (this.#options.token !== undefined && request.headers.authorization !== `Bearer ${this.#options.token}`) {
        throw new Refused(401, "unauthorized", "a token is needed");
      }
      return await this.#route(request.method ?? "GET", verb, path, url, text === "" ? {} : JSON.parse(text));
    } catch (error) {
      return refusal(error instanceof Refused ? error : new Refused(500, "internal", String(error)));
    }
  }

  async #route(method: string, verb: string, path: string, url: URL, body: any): Promise<[number, unknown]> {
    const [, kind, id = "", what = ""] = path.split("/");
    if (kind === "workers") {
      if (verb === "register") return [201, this.#register(body)];
      const worker = this.#store.workers.get(id);
      if (verb === "leave" && worker?.over !== null) return [200, { left: true }];
      if (worker === undefined) throw new Refused(409, "lost", "there is no such worker");
      if (worker.over !== null || worker.until <= this.#store.now()) throw new Refused(409, "lost", "this worker was lost");
      const answer = await this.#verb(worker, what, body);
      if (worker.over === "lost") throw new Refused(409, "lost", "this worker was lost");
      return [200, answer];
    }
    if (kind !== "jobs") throw new Refused(404, "not_found", "there is nothing here");
    if (method === "POST" && id === "") {
      const [one] = this.#submit([body]);
      return [one!.new ? 201 : 200, one];
    }
    if (method === "POST" && id === "batch") return [201, { jobs: this.#submit(body.jobs) }];
    if (id === "") return [200, { jobs: [...this.#store.jobs.values()].reverse().map((job) => this.#job(job)), next: null }];
    const job = this.#store.jobs.get(id);
    if (job === undefined) throw new Refused(404, "not_found", `there is no job ${id}`);
    if (what === "log") return [200, { lines: job.lines, dropped: 0, next: null }];
    if (what === "cancel") {
      const decided = this.#store.cancel(job);
      if (decided === null) throw new Refused(409, "conflict", `job ${id} has ended: it is ${job.state}`);
      return [200, { id, decided }];
    }
    if (what === "retry") {
      Object.assign(job, { state: "waiting", due: this.#store.now(), tried: 0, finished: null });
      return [200, { id, decided: "waiting" }];
    }
    await this.#ended(job, url.searchParams.get("wait"));
    return [200, this.#job(job)];
  }

  async #ended(job: StoredJob, wait: string | null): Promise<void> {
    const until = performance.now() + (wait === null ? 0 : spanMs(wait));
    while (job.finished === null && performance.now() < until) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, until - performance.now());
        this.#waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  #submit(requests: Record<string, any>[]): { id: string; new: boolean; duplicate: string | null }[] {
    requests.forEach((request) => {
      if (typeof request.task !== "string" || request.task === "") throw new Refused(422, "invalid", "task: is missing", "/task");
      const { priority } = request;
      if (typeof priority === "number" && (priority < 1 || priority > 10)) throw new Refused(422, "invalid", "priority: must be 1 to 10", "/priority");
    });
    const answers = this.#store.submit(requests);
    for (const { id } of answers) {
      const job = this.#store.jobs.get(id)!;
      job.limited = this.#limited.has(job.task);
    }
    return answers;
  }

  #register(facts: any): unknown {
    if (facts.protocol !== 1) throw new Refused(422, "invalid", "protocol: must be 1", "/protocol");
    const worker = this.#store.register(facts);
    if (worker === null) throw new Refused(409, "name_taken", `the name ${facts.name} is that of a living node`);
    const { id, lease, queues, tasks } = worker;
    return { worker: id, protocol: 1, lease_ms: lease, beat_ms: Math.round(lease / 3), grace_ms: this.#store.grace, queues, tasks: Object.keys(tasks) };
  }

  async #verb(worker: StoredWorker, verb: string, body: any): Promise<unknown> {
    switch (verb) {
      case "take":
        return this.#take(worker, body);
      case "beat":
        distinct(body.held);
        worker.slots = body.slots;
        worker.until = this.#store.now() + worker.lease;
        return { lease_ms: worker.lease, stop: this.#store.stops(worker, body.held) };
      case "note":
        distinct(body.notes);
        return { notes: body.notes.map((note: any) => this.#store.note(worker, note)) };
      case "settle":
        if (body.ends.length > 1_000) throw new Refused(422, "invalid", "ends: at most 1000", "/ends");
        distinct(body.ends);
        return { ends: body.ends.map((end: any) => this.#store.settle(worker, end)) };
      case "leave":
        return this.#store.leave(worker, body.back, body.held);
      default:
        throw new Refused(404, "not_found", "there is no such verb");
    }
  }

  #take(worker: StoredWorker, { n, wait_ms, held }: any): Promise<unknown> {
    distinct(held);
    this.#takes.get(worker.id)?.answer({ jobs: [], stop: [] });
    return new Promise((resolve) => {
      const take: Take = {
        worker, n, held,
        answer: (taken) => {
          clearTimeout(timer);
          if (this.#takes.get(worker.id) === take) this.#takes.delete(worker.id);
          resolve(taken);
        },
      };
      const timer = setTimeout(() => take.answer({ jobs: [], stop: [] }), wait_ms);
      this.#takes.set(worker.id, take);
      this.#tryTake(take);
    });
  }

  #tryTake(take: Take): void {
    if (this.#takes.get(take.worker.id) !== take) return;
    const mail = this.#store.mail(take.worker, take.held, take.n);
    if (mail.jobs.length > 0 || mail.stop.length > 0 || take.worker.over !== null) take.answer(mail);
  }

  #job(job: StoredJob): Record<string, unknown> {
    const time = (at: number | null) => (at === null ? null : new Date(at).toISOString());
    const { request } = job;
    const given = (name: string) => request[name] ?? null;
    return {
      id: job.id, task: job.task, queue: request.queue ?? "default", group: request.group ?? "default", key: given("key"), unique: given("unique"),
      unique_scope: given("unique_scope"), unique_until: null, priority: request.priority ?? 5, state: job.state, attempt: job.attempt,
      retries_left: null, args: job.args, result: job.result, error: job.error, node: job.worker && this.#store.workers.get(job.worker)!.name,
      submitted_at: time(job.submitted), due_at: time(Number.isFinite(job.due) ? job.due : null), assigned_at: time(job.taken), started_at: time(job.taken),
      finished_at: time(job.finished), retry: given("retry"), timeout: given("timeout"), on_exhausted: given("on_exhausted"), next: given("next"),
      expires_at: null, fingerprint: null, cancel_requested: job.cancelRequested, waits_for: [], schedule: null, traceparent: given("traceparent"),
      progress: job.progress, steps: job.steps, after: request.after ?? [], on_failure: given("on_failure"), awaited_by: [], attempts: job.attempts,
    };
  }
}

function distinct(jobs: Named[]): void {
  if (new Set(jobs.map(({ id }) => id)).size < jobs.length) throw new Refused(422, "invalid", "a job is named twice");
}

function verbOf(method: string, path: string): string {
  const [, kind, id = "", verb = ""] = path.split("/");
  if (kind === "workers") return id === "" ? "register" : verb;
  return kind === "jobs" && method === "POST" && (id === "" || id === "batch") ? "submit" : path;
}

function refusal({ status, word, message, path }: Refused): [number, unknown] {
  const errors = path === undefined ? undefined : [{ path, message }];
  return [status, { type: `urn:turnwise:${word}`, title: message, status, detail: message, errors }];
}

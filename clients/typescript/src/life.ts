//! One life of a worker: from its registration until it has left or is lost.

import { Beats } from "./beats.js";
import { Backoff, LONGEST_TIMER, pause, type Connection } from "./connection.js";
import { Desk, type Slots } from "./desk.js";
import { Ends } from "./ends.js";
import type { Logger } from "./logger.js";
import { Notes } from "./notes.js";
import { CANCELLED, INTERRUPTED } from "./outcome.js";
import { Busy, Conflict, Forbidden, NotFound, passes, Unauthorized, Unreachable } from "./problem.js";
import type { Named, Registered, Stop, Taken, TakenJob } from "./protocol.js";
import { Run, type Around, type Grace } from "./run.js";
import { Stopped } from "./stop.js";
import type { Task } from "./task.js";

/** How long a take waits for something to tell, in milliseconds. */
const WAIT = 25_000;
/** How long a server has for what does not wait. */
const WITHIN = 30_000;
/** Share of a lease without contact from which on nothing is begun, and what a limit counts is stopped. */
const DOUBT = 0.8;
/** Most jobs in one take. */
const MOST_JOBS = 1_000;

export interface LifeOptions {
  connection: Connection;
  registered: Registered;
  /** When the registration was sent, by `process.hrtime`. */
  sent: bigint;
  tasks: Map<string, Task>;
  slots: Slots;
  buffer: number;
  around: Around | undefined;
  logger: Logger;
}

export class Life {
  readonly #options: LifeOptions;
  readonly #desk: Desk;
  readonly #beats: Beats;
  readonly #notes: Notes;
  readonly #ends: Ends;
  readonly #grace: Grace;
  readonly #worker: string;
  readonly #ended = new AbortController();
  readonly #over: Promise<"left" | "lost">;
  #finish!: (how: "left" | "lost") => void;
  #fail!: (error: unknown) => void;
  #draining = false;
  #doubting = false;
  #doubtTimer: NodeJS.Timeout | undefined;
  #opened: Promise<"room"> | undefined;
  /** The take before the last one, if it is still under way. */
  #older: AbortController | undefined;
  /** Called when there is room again, or nothing left to do. */
  #changed: (() => void)[] = [];

  constructor(options: LifeOptions) {
    const { connection, registered, sent, slots, buffer, logger } = options;
    this.#options = options;
    this.#worker = registered.worker;
    this.#desk = new Desk(slots, buffer);
    // The server ends a job as timed out when its time and the grace are over, counted from the take: the worker has to be first.
    this.#grace = { stop: registered.grace_ms, timeout: registered.grace_ms / 4 };
    this.#over = new Promise((resolve, reject) => {
      this.#finish = resolve;
      this.#fail = reject;
    });
    this.#notes = new Notes((body) => this.#ask("note", () => body), (job) => this.#stop({ ...job, reason: "gone" }), logger);
    this.#ends = new Ends((body) => this.#ask("settle", () => body), (jobs) => this.#release(jobs), (error) => this.#failed(error), logger);
    const data = { worker: registered.worker, slots: slots.limit, beat: registered.beat_ms, lease: registered.lease_ms };
    this.#beats = new Beats(connection.address, data, sent, {
      stop: (stop) => stop.forEach((one) => this.#stop(one)),
      lost: (text) => this.#lost(text),
      failed: (error) => this.#failed(error),
      trouble: (text) => logger.warn(`a beat was not answered as it should be: ${text}`),
    });
  }

  /** Lives. Returns when the worker has left, or is lost: then all that it ran was stopped. Throws if the server refuses the worker. */
  async live(): Promise<"left" | "lost"> {
    this.#watchDoubt();
    void this.#takes();
    try {
      return await this.#over;
    } finally {
      this.#ended.abort(new Stopped("gone"));
      clearTimeout(this.#doubtTimer);
      await this.#stopAll();
      this.#notes.end();
      this.#ends.end();
      await this.#beats.end();
    }
  }

  // Taking

  async #takes(): Promise<void> {
    try {
      await this.#beats.ready;
      while (!this.#ended.signal.aborted) {
        const n = this.#draining || this.#doubting ? 0 : Math.min(this.#desk.room(), MOST_JOBS);
        const abort = new AbortController();
        const take = this.#take(n, abort);
        if (n > 0) {
          await take;
        } else if ((await Promise.race([take, this.#room()])) === "room") {
          // A newer take ends this one at the server; what it still brings is welcome. But there is never a third.
          this.#older?.abort(new Stopped("gone"));
          this.#older = abort;
        }
        // Short jobs have ended by then, and there is room for others.
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  async #take(n: number, abort: AbortController): Promise<"taken"> {
    const number = this.#desk.beginTake();
    try {
      const body = () => JSON.stringify({ n, wait_ms: WAIT, held: this.#desk.names() });
      const taken: Taken = await this.#ask("take", body, WAIT + 10_000, abort.signal);
      taken.stop.forEach((stop) => this.#stop(stop));
      this.#accept(taken.jobs);
    } catch (error) {
      if (!abort.signal.aborted) this.#failed(error);
    } finally {
      this.#desk.endTake(number);
    }
    return "taken";
  }

  /** Returns when a job can be taken. One wait serves all takes in a row that are made meanwhile. */
  #room(): Promise<"room"> {
    this.#opened ??= (async () => {
      while (this.#draining || this.#doubting || this.#desk.room() === 0) await this.#change();
      this.#opened = undefined;
      return "room" as const;
    })();
    return this.#opened;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #tell(): void {
    if (this.#changed.length > 0) this.#changed.splice(0).forEach((changed) => changed());
  }

  #accept(jobs: TakenJob[]): void {
    const fresh = jobs.filter((job) => !this.#desk.knows(job) && this.#newest(job));
    if (fresh.length === 0) return;
    for (const job of fresh) this.#desk.take(new Run(job, this.#notes, this.#grace));
    // Before anything runs: from here on a task may block this thread.
    this.#beats.hold(fresh);
    this.#begin();
    // While it stops, they are given back.
    if (this.#draining) this.#tell();
  }

  /** A job that is here already was given out anew: the run of the older fence is over. */
  #newest({ id, fence }: TakenJob): boolean {
    const other = this.#desk.findAny(id);
    if (other === undefined) return true;
    if (other.fence > fence) return false;
    this.#stop({ id, fence: other.fence, reason: "gone" });
    return true;
  }

  // Running

  #begin(): void {
    while (!this.#draining && !this.#doubting && !this.#ended.signal.aborted) {
      const run = this.#desk.next();
      if (run === undefined) return;
      const task = this.#options.tasks.get(run.task);
      if (task === undefined) {
        this.#options.logger.error(`job ${run.id} is of the task ${JSON.stringify(run.task)}, which is not known here`);
        this.#settle(run, INTERRUPTED);
      } else if (run.job.timeout_ms != null && performance.now() - run.taken > this.#grace.stop / 2) {
        // Its time has been running since it was taken: too little would be left. It comes again at once.
        this.#settle(run, INTERRUPTED);
      } else {
        this.#start(run, task);
      }
    }
  }

  #start(run: Run, task: Task): void {
    this.#desk.begin(run);
    const ended = (outcome: string | null) => (outcome === null ? this.#release([run]) : this.#settle(run, outcome));
    run.start(task, this.#options.around, ended, () => {
      this.#desk.over(run);
      this.#begin();
      this.#tell();
    });
  }

  #settle(run: Run, outcome: string): void {
    const push = () => this.#ends.push({ id: run.id, fence: run.fence, ran, outcome });
    const ran = run.ran();
    // After its end the job takes no notes.
    if (this.#notes.has(run)) void this.#notes.flushed(run).then(push);
    else push();
  }

  #release(jobs: Named[]): void {
    this.#desk.release(jobs);
    this.#beats.release(jobs);
    this.#tell();
  }

  #stop({ id, fence, reason }: Stop): void {
    const run = this.#desk.find({ id, fence });
    if (run === undefined) return;
    const queued = this.#desk.unqueue(run);
    if (reason === "cancelled") {
      run.stop("cancelled");
      if (queued) this.#settle(run, CANCELLED);
    } else {
      // It is another's: nothing is settled, whatever the task does now.
      run.stop("gone");
      this.#release([run]);
    }
  }

  // Contact

  /** Looks whether contact was lost for too long; again when that can be the case at the earliest. */
  #watchDoubt(): void {
    const left = this.#beats.lease() * DOUBT - this.#beats.sinceContact();
    if (left <= 0 && !this.#doubting) {
      this.#doubting = true;
      this.#options.logger.warn("no server has answered for most of the lease: no more jobs are begun, and those that a limit counts are stopped");
      for (const run of this.#desk.active()) if (run.limited) run.stop("doubt");
    } else if (left > 0 && this.#doubting) {
      this.#doubting = false;
      this.#options.logger.warn("a server answers again");
      this.#begin();
      this.#tell();
    }
    this.#doubtTimer = setTimeout(() => this.#watchDoubt(), left > 0 ? left : 100);
    this.#doubtTimer.unref();
  }

  #lost(text: string): void {
    if (this.#ended.signal.aborted) return;
    this.#options.logger.warn(`this worker was lost, and begins anew: ${text}`);
    this.#ended.abort(new Stopped("gone"));
    this.#tell();
    this.#finish("lost");
  }

  #failed(error: unknown): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort(new Stopped("gone"));
    this.#tell();
    this.#fail(error);
  }

  /** Asks until it is answered, each time with what is so then. */
  async #ask(verb: string, body: () => string, within = WITHIN, signal: AbortSignal = this.#ended.signal): Promise<any> {
    const backoff = new Backoff();
    for (;;) {
      try {
        const ended = () => this.#ended.signal.throwIfAborted();
        ended();
        const answer = await this.#once(verb, body(), within, signal);
        ended();
        return answer;
      } catch (error) {
        if (error instanceof Conflict || error instanceof NotFound) {
          this.#lost(error.detail);
          throw new Stopped("gone");
        }
        if (error instanceof Unauthorized || error instanceof Forbidden) this.#failed(error);
        if (!passes(error)) throw error;
        this.#options.logger.info(`${verb}: ${(error as Busy | Unreachable).message}`);
        await pause(backoff.after(error), this.#ended.signal);
      }
    }
  }

  /** The end of this life ends every request, also one with a signal of its own. */
  async #once(verb: string, body: string, within: number, signal: AbortSignal): Promise<any> {
    const path = `/workers/${this.#worker}/${verb}`;
    if (signal === this.#ended.signal) return this.#options.connection.once("POST", path, { body, within, signal });
    const both = new AbortController();
    const stopped = () => both.abort(new Stopped("gone"));
    const signals = [signal, this.#ended.signal];
    signals.forEach((one) => (one.aborted ? stopped() : one.addEventListener("abort", stopped, { once: true })));
    try {
      return await this.#options.connection.once("POST", path, { body, within, signal: both.signal });
    } finally {
      signals.forEach((one) => one.removeEventListener("abort", stopped));
    }
  }

  // Stopping

  /**
   * Takes no more, gives back what has not begun, and leaves when what runs has ended; after `drain` milliseconds what still runs
   * is asked to stop and goes back, too. `interrupt` makes that at once.
   */
  async stop(drain: number, interrupt: AbortSignal): Promise<void> {
    if (this.#draining || this.#ended.signal.aborted) return;
    this.#draining = true;
    const begun = performance.now();
    const spent = () => interrupt.aborted || performance.now() - begun > drain;
    try {
      await this.#soon(this.#beats.drain(), 5_000, interrupt);
      while (!this.#ended.signal.aborted) {
        const back = this.#desk.emptyQueue().map(({ id, fence }) => ({ id, fence }));
        const named = new Set(back.map(({ id }) => id));
        const body = () => JSON.stringify({ back, held: this.#desk.names().filter(({ id }) => !named.has(id)) });
        // A worker that cannot reach a server must end as well: its lease does the rest.
        const left = drain + this.#grace.stop + WITHIN / 2 - (performance.now() - begun);
        const answer = await this.#soon(this.#ask("leave", body), left);
        if (answer === undefined) {
          this.#options.logger.error("no server has answered that this worker leaves; its lease will end");
          return this.#end();
        }
        this.#release(back);
        if (answer.left) return this.#end();
        await this.#idle(spent, drain - (performance.now() - begun), interrupt);
      }
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Returns when nothing is in this worker's hands but what has not begun. */
  async #idle(spent: () => boolean, drain: number, interrupt: AbortSignal): Promise<void> {
    if (this.#desk.held === 0) return pause(100);
    const stop = () => this.#desk.active().forEach((run) => run.stop("stopping"));
    const timer = setTimeout(stop, Math.min(Math.max(0, drain), LONGEST_TIMER));
    interrupt.addEventListener("abort", stop, { once: true });
    if (spent()) stop();
    try {
      while (this.#desk.held > 0 && !this.#desk.hasQueue && !this.#ended.signal.aborted) await this.#change();
    } finally {
      clearTimeout(timer);
      interrupt.removeEventListener("abort", stop);
    }
  }

  /** `undefined`: it takes too long, or is not to be waited for. */
  #soon<T>(work: Promise<T>, ms: number, interrupt?: AbortSignal): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve(undefined), Math.min(Math.max(0, ms), LONGEST_TIMER));
      interrupt?.addEventListener("abort", () => resolve(undefined), { once: true });
      work.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  #end(): void {
    this.#ended.abort(new Stopped("gone"));
    this.#tell();
    this.#finish("left");
  }

  /** What still runs is not this worker's any more. Returns when all of it has stopped, or will not. */
  async #stopAll(): Promise<void> {
    this.#desk.emptyQueue();
    this.#desk.active().forEach((run) => run.stop("gone"));
    // Each of them ends within its grace, or is abandoned then.
    while (this.#desk.active().some((run) => !run.ended)) await this.#change();
    for (const run of this.#desk.active()) {
      this.#options.logger.error(`the task ${run.task} does not stop, and keeps its slot until it returns (job ${run.id})`);
    }
  }
}

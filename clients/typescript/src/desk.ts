//! The jobs in a worker's hands.

import { keyOf, type Named } from "./protocol.js";
import type { Run } from "./run.js";

/** How many tasks may run at a time, and do. One that was abandoned keeps its slot until it returns, also beyond the life that began it. */
export class Slots {
  used = 0;
  constructor(readonly limit: number) {}

  get free(): number {
    return this.limit - this.used;
  }
}

export class Desk {
  /** Taken, and not yet answered by a settle; by the job's id. */
  readonly #held = new Map<string, Run>();
  /** Not begun, in the order in which they were taken. */
  #queue: Run[] = [];
  /** Whose tasks have not returned, by the job's id. */
  readonly #active = new Map<string, Run>();
  /** Answered while a take was under way, with the number of the last take of then: its answer may bring them once more. */
  readonly #answered = new Map<string, number>();
  readonly #takes = new Set<number>();
  #lastTake = 0;

  constructor(
    readonly slots: Slots,
    private readonly buffer: number,
  ) {}

  /** For how many jobs there is room. */
  room(): number {
    return Math.max(0, this.slots.free + this.buffer - this.#queue.length);
  }

  beginTake(): number {
    this.#takes.add(++this.#lastTake);
    return this.#lastTake;
  }

  endTake(take: number): void {
    this.#takes.delete(take);
    const oldest = Math.min(...this.#takes, Infinity);
    for (const [key, last] of this.#answered) {
      if (last >= oldest) break;
      this.#answered.delete(key);
    }
  }

  /** Whether it is here, or was. */
  knows(job: Named): boolean {
    return this.find(job) !== undefined || this.#answered.has(keyOf(job));
  }

  take(run: Run): void {
    this.#held.set(run.id, run);
    this.#queue.push(run);
  }

  find({ id, fence }: Named): Run | undefined {
    const run = this.#held.get(id);
    return run?.fence === fence ? run : undefined;
  }

  /** The same job under whatever fence. */
  findAny(id: string): Run | undefined {
    return this.#held.get(id);
  }

  names(): Named[] {
    return Array.from(this.#held.values(), ({ id, fence }) => ({ id, fence }));
  }

  /** The next job that may begin: not while another run of the same job has not returned. */
  next(): Run | undefined {
    if (this.slots.free <= 0) return undefined;
    const at = this.#queue.findIndex(({ id }) => !this.#active.has(id));
    return at < 0 ? undefined : this.#queue.splice(at, 1)[0];
  }

  begin(run: Run): void {
    this.slots.used++;
    this.#active.set(run.id, run);
  }

  /** Its task has returned. */
  over(run: Run): void {
    this.slots.used--;
    this.#active.delete(run.id);
  }

  /** Takes it out of the queue; `false`: it has begun. */
  unqueue(run: Run): boolean {
    const at = this.#queue.indexOf(run);
    if (at >= 0) this.#queue.splice(at, 1);
    return at >= 0;
  }

  /** All that have not begun. */
  emptyQueue(): Run[] {
    return this.#queue.splice(0);
  }

  /** They are not in this worker's hands any more. */
  release(jobs: Named[]): void {
    for (const job of jobs) {
      if (this.find(job) === undefined) continue;
      this.#held.delete(job.id);
      if (this.#takes.size > 0) this.#answered.set(keyOf(job), this.#lastTake);
    }
  }

  active(): Run[] {
    return [...this.#active.values()];
  }

  get held(): number {
    return this.#held.size;
  }

  get hasQueue(): boolean {
    return this.#queue.length > 0;
  }
}

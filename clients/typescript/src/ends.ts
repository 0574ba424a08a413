//! Ends of runs on their way to a server: those that come while a settle is under way are sent together by the next one.

import { pause } from "./connection.js";
import type { Logger } from "./logger.js";
import { describe } from "./outcome.js";
import { Invalid } from "./problem.js";
import { MOST_ENDS, type EndAnswer, type Named } from "./protocol.js";

/** About the most bytes in one request. */
const REQUEST_BYTES = 8 * 1024 * 1024;

export interface End extends Named {
  ran: number | null;
  /** JSON. */
  outcome: string;
}

export class Ends {
  #waiting: End[] = [];
  #sending = false;
  #over = false;

  constructor(
    private readonly send: (body: string) => Promise<{ ends: EndAnswer[] }>,
    /** They are answered: the jobs are not in this worker's hands any more. */
    private readonly settled: (jobs: Named[]) => void,
    private readonly failed: (error: unknown) => void,
    private readonly logger: Logger,
  ) {}

  push(end: End): void {
    if (this.#over) return;
    this.#waiting.push(end);
    if (this.#sending) return;
    this.#sending = true;
    // Runs that end at the same time share the first request already.
    setImmediate(() => void this.#send());
  }

  end(): void {
    this.#over = true;
    this.#waiting = [];
  }

  async #send(): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#settle(this.#take());
    } catch (error) {
      this.failed(error);
    } finally {
      this.#sending = false;
    }
  }

  #take(): End[] {
    let count = 0;
    for (let bytes = 0; count < this.#waiting.length && count < MOST_ENDS && bytes < REQUEST_BYTES; count++) {
      bytes += this.#waiting[count]!.outcome.length;
    }
    return this.#waiting.splice(0, count);
  }

  async #settle(ends: End[]): Promise<void> {
    let answers: EndAnswer[];
    try {
      ({ ends: answers } = await this.send(`{"ends":[${ends.map(endJson).join()}]}`));
    } catch (error) {
      if (!(error instanceof Invalid)) throw error;
      return this.#split(ends, error);
    }
    const locked: End[] = [];
    const done: Named[] = [];
    ends.forEach((end, at) => {
      const answer = answers[at];
      if (answer?.answer === "locked") return locked.push(end);
      if (answer?.answer === "stale" || answer?.answer === "gone") {
        this.logger.info(`the end of job ${end.id} came too late: ${answer.answer}`);
      } else if (answer?.answer !== "applied") {
        this.logger.warn(`the end of job ${end.id} could not be stored: ${answer?.detail ?? JSON.stringify(answer)}`);
      }
      return done.push(end);
    });
    this.settled(done);
    if (locked.length > 0 && !this.#over) {
      // The others do not wait for a lock.
      void pause(100).then(() => locked.forEach((end) => this.push(end)));
    }
  }

  /** A request as a whole was refused: the end that spoils it is looked for, and replaced by one that says so. */
  async #split(ends: End[], error: Invalid): Promise<void> {
    if (ends.length > 1) {
      const half = Math.ceil(ends.length / 2);
      await this.#settle(ends.slice(0, half));
      return this.#settle(ends.slice(half));
    }
    const [end] = ends as [End];
    const outcome = JSON.stringify({ outcome: "fail", error: `the server refused how the run ended: ${describe(error)}` });
    this.logger.error(`the end of job ${end.id} was refused: ${error.detail}`);
    try {
      const { ends: answers } = await this.send(`{"ends":[${endJson({ ...end, outcome })}]}`);
      if (answers[0]?.answer === "locked") return void pause(100).then(() => this.push({ ...end, outcome }));
    } catch (again) {
      if (!(again instanceof Invalid)) throw again;
    }
    return this.settled([end]);
  }
}

function endJson({ id, fence, ran, outcome }: End): string {
  return `{"id":${JSON.stringify(id)},"fence":${fence},${ran === null ? "" : `"ran_ms":${ran},`}"outcome":${outcome}}`;
}

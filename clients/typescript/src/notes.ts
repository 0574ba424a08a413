//! What runs say meanwhile: log, progress and finished steps, gathered and sent together.

import { pause } from "./connection.js";
import type { Logger } from "./logger.js";
import { Invalid } from "./problem.js";
import { keyOf, LONGEST_LINE, type Line, type Named, type NoteAnswer, type Progress } from "./protocol.js";
import { Stopped } from "./stop.js";

/** How long lines and progress are gathered before they are sent, in milliseconds. A step does not wait. */
const GATHER = 200;
/** Most lines of one run that wait to be sent, and most bytes of all runs: what is more is dropped and counted. */
const MOST_LINES = 1_000;
const MOST_BYTES = 16 * 1024 * 1024;
/** Most notes in one request, and about the most bytes. */
const MOST_NOTES = 200;
const REQUEST_BYTES = 512 * 1024;

interface Step {
  name: string;
  json: string;
  stored: () => void;
  failed: (error: unknown) => void;
}

/** What one run has said and is not sent. */
interface Page extends Named {
  progress: Progress | null;
  lines: Line[];
  steps: Step[];
  dropped: number;
}

/** Where a run's words go. */
export interface Notebook {
  progress(job: Named, progress: Progress): void;
  line(job: Named, line: Line): boolean;
  step(job: Named, name: string, json: string): Promise<void>;
}

export class Notes implements Notebook {
  readonly #pages = new Map<string, Page>();
  /** The pages of the request that is under way. */
  #sent: Page[] = [];
  #bytes = 0;
  #sending = false;
  #urgent: (() => void) | null = null;
  #waiting: (() => void)[] = [];
  #over = false;

  constructor(
    private readonly send: (body: string) => Promise<{ notes: NoteAnswer[] }>,
    private readonly gone: (job: Named) => void,
    private readonly logger: Logger,
  ) {}

  progress(job: Named, progress: Progress): void {
    this.#page(job).progress = { ...progress, text: cut(progress.text) };
    this.#wake(false);
  }

  /** `false`: there is no room for the line. */
  line(job: Named, line: Line): boolean {
    const page = this.#page(job);
    const text = cut(line.text);
    if (this.#over || page.lines.length >= MOST_LINES || this.#bytes + text.length > MOST_BYTES) {
      page.dropped++;
      return false;
    }
    this.#bytes += text.length;
    page.lines.push({ ...line, text });
    this.#wake(false);
    return true;
  }

  /** Returns when the step's result is stored; rejected if it cannot be, or the job is not here any more. */
  step(job: Named, name: string, json: string): Promise<void> {
    if (this.#over) return Promise.reject(new Stopped("gone"));
    return new Promise((stored, failed) => {
      this.#bytes += json.length;
      this.#page(job).steps.push({ name, json, stored, failed });
      this.#wake(true);
    });
  }

  /** Whether anything of this run is not stored yet. */
  has(job: Named): boolean {
    if (this.#pages.size === 0 && this.#sent.length === 0) return false;
    return this.#pages.has(keyOf(job)) || this.#sent.some(({ id, fence }) => id === job.id && fence === job.fence);
  }

  /** Returns when all of this run was sent, and was answered. */
  async flushed(job: Named): Promise<void> {
    while (this.has(job) && !this.#over) {
      const done = new Promise<void>((resolve) => this.#waiting.push(resolve));
      this.#wake(true);
      await done;
    }
  }

  /** Nothing is sent any more. */
  end(): void {
    this.#over = true;
    const pages = [...this.#pages.values(), ...this.#sent];
    this.#pages.clear();
    for (const page of pages) for (const step of page.steps) step.failed(new Stopped("gone"));
    this.#urgent?.();
    this.#tell();
  }

  #page({ id, fence }: Named): Page {
    const key = keyOf({ id, fence });
    let page = this.#pages.get(key);
    if (page === undefined) {
      page = { id, fence, progress: null, lines: [], steps: [], dropped: 0 };
      if (!this.#over) this.#pages.set(key, page);
    }
    return page;
  }

  #wake(urgent: boolean): void {
    if (urgent) this.#urgent?.();
    if (this.#sending || this.#over) return;
    this.#sending = true;
    void this.#send(urgent);
  }

  async #send(urgent: boolean): Promise<void> {
    if (!urgent) await this.#gather();
    while (this.#pages.size > 0 && !this.#over) {
      const pages = this.#take();
      this.#sent = pages;
      await this.#deliver(pages);
      this.#sent = [];
      this.#tell();
      // A step or an end does not wait for what others gather.
      if (this.#pages.size > 0 && this.#waiting.length === 0 && ![...this.#pages.values()].some(({ steps }) => steps.length > 0)) {
        await this.#gather();
      }
    }
    this.#sending = false;
  }

  #gather(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#urgent = null;
        resolve();
      };
      const timer = setTimeout(done, GATHER);
      this.#urgent = done;
    });
  }

  #tell(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  #take(): Page[] {
    const pages: Page[] = [];
    let bytes = 0;
    for (const [key, page] of this.#pages) {
      if (pages.length === MOST_NOTES || bytes > REQUEST_BYTES) break;
      this.#pages.delete(key);
      pages.push(page);
      bytes += sizeOf(page);
      if (page.dropped > 0) this.logger.warn(`${page.dropped} lines of the log of job ${page.id} were dropped: it says more than can be sent`);
    }
    return pages;
  }

  async #deliver(pages: Page[]): Promise<void> {
    let left = await this.#once(pages);
    while (left.length > 0 && !this.#over) {
      await pause(100);
      left = await this.#once(left);
    }
  }

  /** Those that are to be sent again. */
  async #once(pages: Page[]): Promise<Page[]> {
    try {
      const { notes } = await this.send(`{"notes":[${pages.map(noteJson).join()}]}`);
      return pages.filter((page, at) => this.#answered(page, notes[at]));
    } catch (error) {
      // One bad note must not spoil its neighbours.
      if (error instanceof Invalid && pages.length > 1) {
        for (const page of pages) await this.#deliver([page]);
      } else {
        for (const page of pages) this.#dropped(page, error);
      }
      return [];
    }
  }

  /** Whether it is to be sent again. */
  #answered(page: Page, answer: NoteAnswer | undefined): boolean {
    switch (answer?.answer) {
      case "applied":
        this.#bytes -= sizeOf(page);
        for (const step of page.steps) step.stored();
        return false;
      case "locked":
        return true;
      case "stale":
      case "gone":
        this.gone(page);
        this.#dropped(page, new Stopped("gone"));
        return false;
      default:
        this.#dropped(page, new Error(answer?.detail ?? "the server did not take the note"));
        return false;
    }
  }

  #dropped(page: Page, error: unknown): void {
    this.#bytes -= sizeOf(page);
    if (!(error instanceof Stopped) && !this.#over) {
      this.logger.warn(`what job ${page.id} has noted was not stored: ${error instanceof Error ? error.message : error}`);
    }
    for (const step of page.steps) step.failed(error);
  }
}

function sizeOf({ lines, steps }: Page): number {
  const sum = (sizes: number[]) => sizes.reduce((all, size) => all + size, 0);
  return sum(lines.map(({ text }) => text.length)) + sum(steps.map(({ json }) => json.length));
}

function noteJson({ id, fence, progress, lines, steps }: Page): string {
  const parts = [`"id":${JSON.stringify(id)},"fence":${fence}`];
  if (progress !== null) parts.push(`"progress":${JSON.stringify(progress)}`);
  if (lines.length > 0) parts.push(`"lines":${JSON.stringify(lines)}`);
  if (steps.length > 0) parts.push(`"steps":[${steps.map(({ name, json }) => `{"name":${JSON.stringify(name)},"result":${json}}`).join()}]`);
  return `{${parts.join()}}`;
}

function cut(text: string): string {
  const bytes = Buffer.byteLength(text);
  return bytes <= LONGEST_LINE ? text : Buffer.from(text).subarray(0, LONGEST_LINE).toString().replace(/\uFFFD+$/, "");
}

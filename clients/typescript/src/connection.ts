//! Requests and their answers; when to ask again.

import { Busy, passes, problemOf, TurnwiseError, Unreachable } from "./problem.js";

/** Where the server is, and what it is asked with. */
export interface Address {
  /** Such as `https://turnwise.example.com`; with a path where a proxy has one. */
  url: string;
  token?: string | undefined;
}

export interface Asking {
  /** JSON. */
  body?: string | undefined;
  /** How long an answer may take, in milliseconds. */
  within?: number;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
}

/** Longest pause between two tries, and the first one. */
const LONGEST = 5_000;
const FIRST = 100;

/** Timers of Node that are set to more go off at once. */
export const LONGEST_TIMER = 2 ** 31 - 1;

/** How long to wait before the next try: doubled each time, at least as long as the server asks for, never all at the same moment. */
export class Backoff {
  #next = FIRST;

  after(error: unknown): number {
    const wait = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, LONGEST);
    return Math.max(wait, (error instanceof Busy && error.retryAfter) || 0);
  }
}

/** Waits, unless the signal is given: then it is rejected with its reason. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stopped = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stopped);
      resolve();
    }, Math.min(ms, LONGEST_TIMER));
    signal?.addEventListener("abort", stopped, { once: true });
    return undefined;
  });
}

/** One server, or the proxy before several. */
export class Connection {
  readonly #base: string;
  readonly #headers: Record<string, string>;

  constructor(readonly address: Address) {
    const url = new URL(address.url);
    if (url.protocol !== "http:" && url.protocol !== "https:") {
      throw new TurnwiseError(`url: ${address.url} is not an http address`);
    }
    this.#base = `${url.origin}${url.pathname.replace(/\/+$/, "")}/api/v1`;
    this.#headers = { accept: "application/json" };
    if (address.token !== undefined) this.#headers.authorization = `Bearer ${address.token}`;
  }

  /** Asks once. */
  async once(method: string, path: string, { body, within = 30_000, signal, headers }: Asking = {}): Promise<any> {
    signal?.throwIfAborted();
    // One signal for both ends of waiting, taken down afterwards: `AbortSignal.any` keeps hold of long-lived signals.
    const ending = new AbortController();
    const stopped = () => ending.abort(signal!.reason);
    signal?.addEventListener("abort", stopped, { once: true });
    const late = setTimeout(() => ending.abort(new Unreachable(`no answer within ${within} ms`)), within);
    try {
      const sent = body === undefined ? { ...this.#headers, ...headers } : { ...this.#headers, "content-type": "application/json", ...headers };
      // A redirect would carry the token to another place.
      const answer = await fetch(this.#base + path, { method, headers: sent, body: body ?? null, signal: ending.signal, redirect: "error" });
      return read(answer.status, answer.headers.get("retry-after"), await answer.text());
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof TurnwiseError) throw error;
      throw new Unreachable(`${method} ${this.#base}${path}: ${causes(error)}`, { cause: error });
    } finally {
      clearTimeout(late);
      signal?.removeEventListener("abort", stopped);
    }
  }

  /** Asks until there is an answer that will not be another one in a while, for about as long as `patience` in milliseconds. */
  async ask(method: string, path: string, asking: Asking & { patience: number }): Promise<any> {
    const backoff = new Backoff();
    const until = performance.now() + asking.patience;
    for (;;) {
      try {
        return await this.once(method, path, asking);
      } catch (error) {
        const wait = backoff.after(error);
        if (!passes(error) || performance.now() + wait > until) throw error;
        await pause(wait, asking.signal);
      }
    }
  }
}

function read(status: number, retryAfter: string | null, text: string): any {
  let value: unknown;
  try {
    value = text === "" ? {} : JSON.parse(text);
  } catch (error) {
    // A proxy's page, or an answer that was cut off.
    if (status < 300) throw new Unreachable(`the answer is no JSON: ${text.slice(0, 200)}`, { cause: error });
    value = { title: text.slice(0, 200) || `the server answered ${status}` };
  }
  if (status < 300) return value;
  const seconds = retryAfter === null ? NaN : Number(retryAfter);
  throw problemOf(status, Object(value), Number.isFinite(seconds) ? seconds * 1_000 : null);
}

/** What `fetch` says is in its causes. */
function causes(error: unknown): string {
  const said: string[] = [];
  for (let next = error; next instanceof Error && said.length < 5; next = next.cause) said.push(next.message);
  return said.filter((text) => text !== "").join(": ") || String(error);
}

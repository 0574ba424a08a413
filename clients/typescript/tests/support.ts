//! What the tests share: a worker on a server in memory, and programs in processes of their own.

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { Turnwise, Worker, type Logger, type Task, type WorkerOptions } from "turnwise";
import { MemoryServer, type MemoryServerOptions } from "turnwise/testing";

/** Keeps what a worker says. */
export class Said implements Logger {
  readonly lines: string[] = [];
  info(text: string): void {
    this.lines.push(text);
  }
  warn(text: string): void {
    this.lines.push(text);
  }
  error(text: string): void {
    this.lines.push(text);
  }
}

const undone = new WeakMap<TestContext, (() => unknown)[]>();

/** Undoes something after a test, what was done last first: a worker stops before its server does. */
export function afterwards(t: TestContext, undo: () => unknown): void {
  const all = undone.get(t);
  if (all !== undefined) return void all.push(undo);
  const mine = [undo];
  undone.set(t, mine);
  t.after(async () => {
    for (let next = mine.pop(); next !== undefined; next = mine.pop()) await next();
  });
}

export interface Place {
  server: MemoryServer;
  turnwise: Turnwise;
  said: Said;
  /** Starts a worker that is stopped with the test. */
  work(tasks: Task[], options?: WorkerOptions): Promise<Worker>;
}

export async function place(t: TestContext, options: MemoryServerOptions = {}): Promise<Place> {
  const server = await MemoryServer.start(options);
  const turnwise = new Turnwise({ url: server.url, ...(options.token !== undefined && { token: options.token }) });
  const said = new Said();
  const workers: Worker[] = [];
  t.after(async () => {
    await Promise.allSettled(workers.map((worker) => worker.stop()));
    await server.stop();
  });
  const work = async (tasks: Task[], options: WorkerOptions = {}) => {
    const worker = new Worker(turnwise, tasks, { signals: false, drain: 0, logger: said, ...options });
    workers.push(worker);
    await worker.start();
    return worker;
  };
  return { server, turnwise, said, work };
}

/** A promise that a test resolves, and a task waits for. */
export class Gate<T = void> {
  open!: (value: T) => void;
  readonly opened = new Promise<T>((resolve) => (this.open = resolve));
}

/** A program of the tests in a process of its own, killed with the test. */
export class Program {
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  #wake: () => void = () => {};
  readonly exit: Promise<number | NodeJS.Signals | null>;
  errors = "";

  /** Without a test it is the caller's to kill. */
  constructor(t: TestContext | null, command: string, args: string[], env: Record<string, string> = {}, cwd?: string) {
    this.#child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"], ...(cwd && { cwd }) });
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => (this.errors += text));
    createInterface(this.#child.stdout!).on("line", (line) => {
      this.#lines.push(line);
      this.#wake();
    });
    this.exit = new Promise((resolve) => this.#child.on("exit", (code, signal) => {
      resolve(code ?? signal);
      this.#wake();
    }));
    if (t !== null) afterwards(t, () => this.kill());
  }

  /** The first line that has this in it, from those that were not asked for yet. */
  async line(part: string): Promise<string> {
    for (;;) {
      for (let line = this.#lines.shift(); line !== undefined; line = this.#lines.shift()) if (line.includes(part)) return line;
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) throw new Error(`it ended before it said ${JSON.stringify(part)}: ${this.errors}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exit;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
}

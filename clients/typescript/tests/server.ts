//! The real server: `turnwise serve` of TURNWISE_BIN, on a file of its own.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Turnwise } from "turnwise";
import { Program } from "./support.js";

/** The path of the binary; without it the tests with a real server are skipped. */
export const binary = process.env.TURNWISE_BIN ?? "";

export class Real {
  #program!: Program;
  #listen = "127.0.0.1:0";
  url = "";

  private constructor(
    private readonly t: TestContext,
    private readonly folder: string,
    private readonly options: string[],
  ) {}

  static async start(t: TestContext, ...options: string[]): Promise<Real> {
    const folder = mkdtempSync(join(tmpdir(), "turnwise-"));
    const real = new Real(t, folder, options);
    await real.again();
    // After the program, which was registered to be killed with the test.
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return real;
  }

  /** Starts it, after `kill` at the same address as before. */
  async again(): Promise<void> {
    const args = ["serve", "--listen", this.#listen, "--database", this.#database(), ...this.options];
    this.#program = new Program(this.t, binary, args, environment(), this.folder);
    const ready = await this.#program.line("http://");
    this.#listen = /http:\/\/(\S+)/.exec(ready)![1]!;
    this.url = `http://${this.#listen}`;
  }

  async kill(): Promise<void> {
    this.#program.signal("SIGKILL");
    await this.#program.exit;
  }

  /** SIGTERM, as at a deploy. */
  async stop(): Promise<void> {
    this.#program.signal("SIGTERM");
    await this.#program.exit;
  }

  /** What a command of the binary prints. */
  command(...args: string[]): string {
    return execFileSync(binary, [...args, "--database", this.#database()], { cwd: this.folder, env: { ...process.env, ...environment() }, encoding: "utf8" });
  }

  get turnwise(): Turnwise {
    return new Turnwise({ url: this.url });
  }

  #database(): string {
    return `sqlite:${join(this.folder, "jobs.db")}`;
  }
}

/** The settings of the person who runs the tests must not count. */
function environment(): Record<string, string> {
  const mine = Object.keys(process.env).filter((name) => name.startsWith("TURNWISE_"));
  return Object.fromEntries(mine.map((name) => [name, undefined as unknown as string]));
}

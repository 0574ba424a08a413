//! The real server: `turnwise serve` of TURNWISE_BIN, on a file of its own.

import { execFileSync } from "node:child_process";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Turnwise } from "turnwise";
import { afterwards, Program } from "./support.js";

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
    afterwards(t, () => rmSync(folder, { recursive: true, force: true }));
    await real.#first();
    return real;
  }

  /** Another server on the same database. */
  async beside(): Promise<Real> {
    const other = new Real(this.t, this.folder, [...this.options, "--name", "beside"]);
    await other.#first();
    return other;
  }

  async #first(): Promise<void> {
    await this.again();
    // Whatever is started in its place goes when this one would: after the workers that came later.
    afterwards(this.t, () => this.kill());
  }

  /** Starts it, after `kill` at the same address as before. */
  async again(): Promise<void> {
    const args = ["serve", "--listen", this.#listen, "--database", this.#database(), ...this.options];
    this.#program = new Program(null, binary, args, environment(), this.folder);
    const ready = await this.#program.line("http://");
    this.#listen = /http:\/\/(\S+)/.exec(ready)![1]!;
    this.url = `http://${this.#listen}`;
  }

  async kill(): Promise<void> {
    await this.#program.kill();
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

/** Passes each request on to another server than the one before, as a load balancer does; a server that is away is left out. */
export async function balance(t: TestContext, servers: Real[]): Promise<string> {
  let turn = 0;
  const pass = (incoming: IncomingMessage, body: string, response: ServerResponse, tries: number) => {
    const { url } = servers[turn++ % servers.length]!;
    const headers = { ...incoming.headers, host: new URL(url).host, connection: "close" };
    const outgoing = request(url + incoming.url, { method: incoming.method!, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    });
    // Refused, so it was not carried out: another one may be asked. Anything else is the client's to find out.
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED" && tries > 0) pass(incoming, body, response, tries - 1);
      else incoming.socket.destroy();
    });
    response.on("close", () => outgoing.destroy());
    outgoing.end(body);
  };
  const proxy = createServer(async (incoming, response) => {
    let body = "";
    for await (const chunk of incoming.setEncoding("utf8")) body += chunk;
    pass(incoming, body, response, servers.length);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  afterwards(t, () => (proxy.closeAllConnections(), proxy.close()));
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}

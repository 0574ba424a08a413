//! What people read first: the quick start, the guide and the example.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test, type TestContext } from "node:test";
import { MemoryServer } from "turnwise/testing";
import { binary, Real } from "./server.js";
import { Program } from "./support.js";

const root = fileURLToPath(new URL("..", import.meta.url));

function blocks(page: string, language: string): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return Array.from(text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)).flatMap(([, found, block]) => (found === language ? [block!] : []));
}

/** Where the package is installed and nothing else is: given by ./check, which has packed it; else made here. */
function clean(t: TestContext): string {
  const folder = mkdtempSync(join(process.env.TURNWISE_CLEAN ?? tmpdir(), "page-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  if (process.env.TURNWISE_CLEAN === undefined) {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(root, join(folder, "node_modules", "turnwise"));
  }
  return folder;
}

/** The real server if there is one, and one in memory. */
async function servers(t: TestContext): Promise<string[]> {
  const memory = await MemoryServer.start();
  t.after(() => memory.stop());
  return binary === "" ? [memory.url] : [memory.url, (await Real.start(t)).url];
}

test("the quick start has ten lines, and prints what it says", async (t) => {
  const [start] = blocks("README.md", "js");
  assert.ok(start!.split("\n").filter((line) => line !== "").length <= 10);
  for (const url of await servers(t)) {
    const folder = clean(t);
    writeFileSync(join(folder, "start.mjs"), start!.replace("http://127.0.0.1:8080", url));
    const program = new Program(t, process.execPath, ["start.mjs"], {}, folder);
    assert.equal(await program.line("hello"), "hello Ann, by run 1");
    assert.equal(await program.exit, 0, program.errors);
  }
});

test("the code of the guide is right by the types of the package", (t) => {
  const folder = clean(t);
  const code = blocks("../../docs/guides/typescript.md", "ts");
  assert.ok(code.length >= 5);
  writeFileSync(join(folder, "guide.mts"), `${code.join("\n")}\nexport {};\n`);
  const options = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--typeRoots", join(root, "node_modules/@types")];
  execFileSync(join(root, "node_modules/.bin/tsc"), [...options, "guide.mts"], { cwd: folder, stdio: "pipe", encoding: "utf8" });
});

test("the example takes a sign-up, runs its job, and stops gracefully", async (t) => {
  for (const url of await servers(t)) {
    const port = await free();
    const program = new Program(t, process.execPath, ["build/app.js"], { TURNWISE_SERVER: url, PORT: String(port) }, join(root, "examples/hono"));
    await program.line("listening");
    const base = `http://127.0.0.1:${port}/signups`;
    const post = () => fetch(base, { method: "POST", body: JSON.stringify({ email: "ann@example.com" }) });
    const answer = await post();
    assert.equal(answer.status, 202);
    const { id } = (await answer.json()) as { id: string };
    let seen: any;
    do seen = await (await fetch(`${base}/${id}`)).json();
    while (seen.state !== "success");
    assert.deepEqual([seen.result, seen.progress], [{ text: "welcome, ann@example.com" }, { done: 1, total: 2, text: "sending" }]);
    assert.equal((await fetch(`${base}/01900000-0000-7000-8000-000000000000`)).status, 404);
    program.signal("SIGTERM");
    assert.equal(await program.exit, 0, program.errors);
  }
});

/** A port that was free a moment ago. */
function free(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { Busy, Conflict, Invalid, NotEnded, NotFound, Problem, task, Turnwise, TurnwiseError, Unreachable } from "turnwise";
import { place } from "./support.js";

/** A server that answers as the test says, and the requests that it got. */
async function answering(t: TestContext, answer: (got: Got, count: number) => { status: number; body: unknown; headers?: Record<string, string> } | null) {
  const got: Got[] = [];
  const listener: RequestListener = async (request, response) => {
    let text = "";
    for await (const chunk of request.setEncoding("utf8")) text += chunk;
    const one: Got = { path: request.url!, headers: request.headers, body: text === "" ? undefined : JSON.parse(text) };
    got.push(one);
    const said = answer(one, got.length);
    if (said === null) return void request.socket.destroy();
    response.writeHead(said.status, said.headers).end(JSON.stringify(said.body));
  };
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, got };
}

interface Got {
  path: string;
  headers: Record<string, any>;
  body: any;
}

test("what a caller says of a job is sent with the names of the API", async (t) => {
  const { url, got } = await answering(t, ({ body }) => ({ status: 201, body: { id: body.id, new: true, duplicate: null } }));
  const turnwise = new Turnwise({ url: `${url}/prefix/`, token: "secret" });
  const mail = task("mail", (_: { to: string }) => {});
  await turnwise.submit(mail, { to: "ann" }, {
    queue: "q", group: "acme", key: "k", priority: "high", uniqueFor: 1_500, unique: "u", uniqueScope: "queue", onDuplicate: "replace-args",
    after: ["x"], onFailure: "run", at: new Date(0), expires: "1h 30m", timeout: 0.25, retry: "none", next: "n", onExhausted: "e", traceparent: "00-1", tracestate: "s",
  });
  const { id, ...body } = got[0]!.body;
  assert.deepEqual(body, {
    task: "mail", args: { to: "ann" }, queue: "q", group: "acme", key: "k", priority: "high", unique_for: "1500ms", unique: "u", unique_scope: "queue",
    on_duplicate: "replace-args", after: ["x"], on_failure: "run", at: "1970-01-01T00:00:00.000Z", expires: "1h 30m", timeout: "250us", retry: "none",
    next: "n", on_exhausted: "e", traceparent: "00-1", tracestate: "s",
  });
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.deepEqual([got[0]!.path, got[0]!.headers.authorization], ["/prefix/api/v1/jobs", "Bearer secret"]);
});

test("a submit whose answer was lost is repeated with the same id, and its job is new", async (t) => {
  const { server, turnwise } = await place(t);
  for (const trouble of ["request", "reply", 503] as const) {
    server.trouble("submit", trouble, 2);
    const [one, two] = await turnwise.submitMany([{ task: "a" }, { task: "b", args: [1] }]);
    assert.deepEqual([one!.new, two!.new], [true, true]);
    server.trouble("submit", trouble, 2);
    assert.equal((await turnwise.submit("c")).new, true);
  }
  assert.equal((await turnwise.jobs()).jobs.length, 9);
});

test("with an idempotency key each try carries that key, and no id", async (t) => {
  const { url, got } = await answering(t, (_, count) => (count < 3 ? null : { status: 201, body: { id: "x", new: true, duplicate: null } }));
  assert.equal((await new Turnwise({ url }).submit("a", null, { idempotencyKey: "order-7" })).id, "x");
  assert.deepEqual(got.map(({ headers, body }) => [headers["idempotency-key"], body.id]), Array(3).fill(["order-7", undefined]));
});

test("where this machine's clock is ahead of the server's, jobs are submitted without ids of its own", async (t) => {
  const problem = { type: "urn:turnwise:invalid", title: "t", status: 422, detail: "id: is of the future", errors: [{ path: "/id", message: "id: is of the future" }] };
  const { url, got } = await answering(t, ({ body }) => (body.id === undefined ? { status: 201, body: { id: "s", new: true, duplicate: null } } : { status: 422, body: problem }));
  const turnwise = new Turnwise({ url });
  assert.equal((await turnwise.submit("a")).id, "s");
  assert.equal((await turnwise.submit("b")).id, "s");
  assert.deepEqual(got.map(({ headers }) => headers["idempotency-key"] !== undefined), [false, true, true]);
  await assert.rejects(turnwise.submit("c", null, { id: "0190b5a0-0000-7000-8000-000000000000" }), Invalid);
});

test("a key that another job holds names that job", async (t) => {
  const { turnwise } = await place(t);
  const first = await turnwise.submit("a", null, { unique: "u" });
  assert.deepEqual(await turnwise.submit("a", null, { unique: "u" }), { id: first.id, new: false, duplicate: "kept" });
});

test("jobs of a batch wait for each other by name, and a delayed one for its time", async (t) => {
  const { server, turnwise, work } = await place(t);
  const order: string[] = [];
  const say = task("say", (word: string) => void order.push(word));
  await work([say], { slots: 4 });
  const [last, , later] = await turnwise.submitMany([
    say.job("second", { after: "first" }),
    say.job("first", { as: "first" }),
    say.job("later", { in: "1h" }),
  ]);
  await turnwise.wait(last!.id);
  assert.deepEqual(order, ["first", "second"]);
  assert.equal((await turnwise.job(later!.id)).state, "waiting");
  server.advance("1h");
  await turnwise.wait(later!.id);
  assert.deepEqual(await turnwise.submitMany([]), []);
});

test("what a server refuses is an error with its fields", async (t) => {
  const { turnwise } = await place(t);
  const refused = await turnwise.submit("a", null, { priority: 11 }).catch((error: unknown) => error);
  assert.ok(refused instanceof Invalid && refused instanceof Problem && refused instanceof TurnwiseError);
  assert.deepEqual([refused.status, refused.type, refused.errors[0]!.path], [422, "urn:turnwise:invalid", "/priority"]);
  assert.match(refused.message, /priority/);
  await assert.rejects(turnwise.job("0190b5a0-0000-7000-8000-000000000000"), NotFound);
  const { id } = await turnwise.submit("a");
  assert.equal((await turnwise.cancel(id)).decided, "cancelled");
  await assert.rejects(turnwise.cancel(id), Conflict);
  assert.equal((await turnwise.retry(id)).decided, "waiting");
});

test("when patience is over, a server that is out of reach or busy is an error", async (t) => {
  await assert.rejects(new Turnwise({ url: "http://127.0.0.1:9", patience: 0 }).submit("a"), Unreachable);
  const { url, got } = await answering(t, () => ({ status: 429, body: { title: "too much" }, headers: { "retry-after": "7" } }));
  const busy = await new Turnwise({ url, patience: "2s" }).submit("a").catch((error: unknown) => error);
  assert.ok(busy instanceof Busy);
  assert.deepEqual([busy.retryAfter, got.length], [7_000, 1], "it is not asked before the time that it names");
});

test("a redirect is not followed: it would carry the token elsewhere", async (t) => {
  const { url, got } = await answering(t, () => ({ status: 302, body: {}, headers: { location: "/elsewhere" } }));
  await assert.rejects(new Turnwise({ url, patience: 0 }).job("x"), Unreachable);
  assert.equal(got.length, 1);
});

test("an end that does not come in time is an error that has the job", async (t) => {
  const { turnwise } = await place(t);
  const { id } = await turnwise.submit("nobody");
  const error = await turnwise.wait(id, { for: "20ms" }).catch((error: unknown) => error);
  assert.ok(error instanceof NotEnded);
  assert.deepEqual([error.job.id, error.job.state], [id, "waiting"]);
  await assert.rejects(turnwise.wait(id, { signal: AbortSignal.abort(new Error("given up")) }), /given up/);
});

test("the address and the token come from the environment if they are not given", async (t) => {
  const { url, got } = await answering(t, () => ({ status: 200, body: {} }));
  t.after(() => (delete process.env.TURNWISE_SERVER, delete process.env.TURNWISE_TOKEN));
  assert.throws(() => new Turnwise(), /TURNWISE_SERVER/);
  Object.assign(process.env, { TURNWISE_SERVER: url, TURNWISE_TOKEN: "t" });
  await new Turnwise().job("x");
  // The token of one server is not given to another one.
  await new Turnwise({ url }).job("x");
  const folder = mkdtempSync(join(tmpdir(), "token-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "token");
  writeFileSync(file, "secret\n");
  await new Turnwise({ url, token: `@${file}` }).job("x");
  assert.deepEqual(got.map(({ headers }) => headers.authorization), ["Bearer t", undefined, "Bearer secret"]);
});

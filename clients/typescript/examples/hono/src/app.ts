//! A web service with Hono: a request submits a job and is answered at once, and a worker in the same process runs it.
//!
//! TURNWISE_SERVER names the server, PORT the port to listen at.

import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { NotFound, Problem, task, Turnwise, Worker } from "turnwise";

const turnwise = new Turnwise();

interface Signup {
  email: string;
}

const welcome = task("welcome", { retry: "exponential:1s,3", timeout: "30s" }, async ({ email }: Signup, ctx) => {
  ctx.progress(0, 2, "writing");
  const text = await ctx.step("write", () => `welcome, ${email}`);
  ctx.progress(1, 2, "sending");
  ctx.log(`sent to ${email}`);
  return { text };
});

const app = new Hono();

app.post("/signups", async (c) => {
  const { email } = await c.req.json<Signup>();
  // Each customer's domain gets its turn, and a form that is sent twice is one job.
  const { id } = await turnwise.submit(welcome, { email }, { group: email.split("@")[1] ?? "default", unique: email });
  return c.json({ id }, 202, { location: `/signups/${id}` });
});

app.get("/signups/:id", async (c) => {
  const { state, progress, result } = await turnwise.job(c.req.param("id"));
  return c.json({ state, progress, result });
});

app.onError((error, c) => {
  if (error instanceof NotFound) return c.json({ error: error.detail }, 404);
  if (error instanceof Problem) return c.json({ error: error.detail }, 502);
  throw error;
});

const worker = new Worker(turnwise, [welcome], { slots: 4 });
const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env.PORT ?? 3000) }, ({ port }) => {
  console.log(`listening at http://127.0.0.1:${port}`);
});

// Returns after SIGTERM, when what was running has ended: requests are answered until then.
await worker.run();
server.close();

//! Turnwise for Node: [`turnwise`] submits, reads and decides → [`task`] what there is to run → [`worker`] runs it →
//! [`ctx`] what a run sees → [`outcome`] how it ends → [`problem`] what goes wrong.
//!
//! Inside: [`life`] one life of a worker, with [`desk`] the jobs in its hands, [`run`] a run, [`notes`] and [`ends`] what goes to the
//! server, and [`beats`] the thread that keeps it alive.

export { NotEnded, Turnwise } from "./turnwise.js";
export type { Attempt, Decided, Job, LogLine, State, SubmitOptions, Submitted, TurnwiseOptions } from "./turnwise.js";
export type { JobOptions, JobRequest } from "./request.js";
export type { Span } from "./span.js";
export { Task, task } from "./task.js";
export type { TaskFacts, TaskFunction } from "./task.js";
export { Worker } from "./worker.js";
export type { WorkerOptions } from "./worker.js";
export type { Logger } from "./logger.js";
export type { Around } from "./run.js";
export type { Ctx } from "./ctx.js";
export { Stopped } from "./stop.js";
export type { StopReason } from "./stop.js";
export { cancelled, fail, next, Outcome, snooze } from "./outcome.js";
export { currentTrace } from "./trace.js";
export type { Trace } from "./trace.js";
export { Busy, Conflict, Forbidden, Invalid, NotFound, Problem, TurnwiseError, Unauthorized, Unreachable } from "./problem.js";
export type { WrongValue } from "./problem.js";

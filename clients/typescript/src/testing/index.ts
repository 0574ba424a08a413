//! For tests: [`runTask`] runs one job inline, [`MemoryServer`] is a server for workers and callers that keeps all in memory.

export { runTask } from "./run-task.js";
export type { Ran, RunOptions } from "./run-task.js";
export { MemoryServer } from "./memory-server.js";
export type { MemoryServerOptions, Trouble } from "./memory-server.js";

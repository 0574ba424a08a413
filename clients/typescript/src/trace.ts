//! The trace of a run goes on in the jobs that it submits.

import { AsyncLocalStorage } from "node:async_hooks";

const storage = new AsyncLocalStorage<string>();

/** Calls `inner` within the trace of a run. */
export function within<T>(traceparent: string | null, inner: () => T): T {
  // Jobs without a trace pay nothing for those that have one.
  return traceparent === null ? inner() : storage.run(traceparent, inner);
}

/** The `traceparent` of the run that this is called from. */
export function currentTrace(): string | undefined {
  return storage.getStore();
}

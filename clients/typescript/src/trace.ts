//! The trace of a run goes on in the jobs that it submits.

import { AsyncLocalStorage } from "node:async_hooks";

/** As W3C's headers of these names have it. */
export interface Trace {
  traceparent: string;
  tracestate?: string;
}

const storage = new AsyncLocalStorage<Trace>();

/** Calls `inner` within the trace of a run. */
export function within<T>(trace: Trace | null, inner: () => T): T {
  // Jobs without a trace pay nothing for those that have one.
  return trace === null ? inner() : storage.run(trace, inner);
}

/** The trace of the run that this is called from. */
export function currentTrace(): Trace | undefined {
  return storage.getStore();
}

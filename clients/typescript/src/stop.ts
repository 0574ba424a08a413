//! Why a run is asked to stop.

import { TurnwiseError } from "./problem.js";

/**
 * - `cancelled`: a person wants it stopped
 * - `timed_out`: its time is over
 * - `stopping`: this worker stops; the job goes back and spends no attempt
 * - `doubt`: a limit counts this job, and no server has answered for most of a lease: another node may soon run it
 * - `gone`: it is not this worker's any more
 */
export type StopReason = "cancelled" | "timed_out" | "stopping" | "doubt" | "gone";

const TEXTS: Record<StopReason, string> = {
  cancelled: "the job was cancelled",
  timed_out: "the run took longer than its timeout",
  stopping: "the worker stops",
  doubt: "no server has answered for most of the lease, and a limit counts this job",
  gone: "the job is not this worker's any more",
};

/** The reason of a run's `signal`. */
export class Stopped extends TurnwiseError {
  // What `fetch` and its like are expected to throw on a signal.
  override name = "AbortError";
  constructor(readonly reason: StopReason) {
    super(TEXTS[reason]);
  }
}

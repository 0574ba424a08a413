//! Spans of submits, for a program that sends them to a collector. What a span is made of is up to that program.

use std::fmt;

use turnwise::TraceContext;

/// Where the spans of submits go. Where there is none, the jobs belong to their caller's trace as it is.
pub trait Spans: fmt::Debug + Send + Sync {
    /// A submit begins, as a part of its caller's trace; `None`: as the first of a new one.
    fn submit(&self, caller: Option<&TraceContext>) -> Box<dyn SubmitSpan>;
}

/// The span of a submit.
pub trait SubmitSpan: Send {
    /// Its place in the trace: the jobs belong to it, and so do their runs. `None`: it has none, and the jobs belong to the caller's.
    fn context(&self) -> Option<TraceContext>;

    /// The submit is over, with this HTTP status. It was one of so many jobs.
    fn end(self: Box<Self>, status: u16, jobs: usize);
}

//! `tracing` events of a task, in its job's log: add [`JobLog`] to your subscriber.

use std::{
    fmt::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use tracing::{Event, Subscriber, field};
use tracing_subscriber::layer::{Context, Layer};
use turnwise_core::story::Level;

use crate::ctx::Ctx;

tokio::task_local! {
    static CURRENT: Ctx;
}

/// Whether a [`JobLog`] was made: without one no run pays for it.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Writes events that happen inside a task to the job's log.
///
/// ```
/// use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt, Layer, filter::LevelFilter};
///
/// tracing_subscriber::registry()
///     .with(turnwise_executor::JobLog::new().with_filter(LevelFilter::INFO))
///     .init();
/// ```
///
/// Events of futures that the task spawns itself are not part of its run, and are not seen.
#[derive(Debug)]
#[non_exhaustive]
pub struct JobLog;

impl JobLog {
    /// A layer for the program's subscriber. Once one was made, every run of the program pays a little for it.
    #[allow(clippy::new_without_default)] // making one has an effect: tasks are listened to from then on
    pub fn new() -> Self {
        WANTED.store(true, Ordering::Release);
        Self
    }
}

impl<S: Subscriber> Layer<S> for JobLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Outside of a task there is no log to write to.
        let _ = CURRENT.try_with(|ctx| {
            let mut text = Text::default();
            event.record(&mut text);
            ctx.log_at(level(*event.metadata().level()), text.said());
        });
    }
}

fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

/// The message, then the fields.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn said(self) -> String {
        self.message + &self.fields
    }
}

impl field::Visit for Text {
    fn record_str(&mut self, field: &field::Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// Runs `task` so that its events find their job.
pub(crate) async fn heard<T>(ctx: &Ctx, task: impl Future<Output = T>) -> T {
    if WANTED.load(Ordering::Acquire) { CURRENT.scope(ctx.clone(), task).await } else { task.await }
}

/// The same for a function on a thread of its own.
pub(crate) fn heard_here<T>(ctx: Ctx, task: impl FnOnce() -> T) -> T {
    if WANTED.load(Ordering::Acquire) { CURRENT.sync_scope(ctx, task) } else { task() }
}

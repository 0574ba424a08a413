//! Tasks of nodes.

use turnwise_executor::{Ctx, Outcome, Task};

/// Ends at once.
pub(crate) struct Noop;

impl Task for Noop {
    type Args = ();
    const NAME: &'static str = "noop";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::done()
    }
}

/// A registry of these tasks.
macro_rules! tasks {
    ($($task:expr),* $(,)?) => {{
        let mut registry = turnwise_executor::Registry::new();
        $(registry.register($task).unwrap();)*
        registry
    }};
}
pub(crate) use tasks;

//! Foreign workers: programs in other languages whose tasks this installation's jobs run. `turnwise serve` answers them over HTTP
//! (`docs/workers.md`); this is what it answers them with.

use turnwise_core::access::Grant;
pub use turnwise_core::worker::{GRACE, LEASE, Stop, TaskFacts, Worker};
pub use turnwise_executor::workers::{
    End, EndAnswer, Given, Held, How, Left, NoteAnswer, Register, Registered, Said, SaidLine, Take, Taken, WorkerError,
    Workers,
};

use turnwise_core::Serves;

use crate::{Error, Turnwise};

impl Turnwise {
    /// The workers of this database, as one server answers them. It remembers some of what it reads: a process has one.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub fn workers(&self) -> Result<Workers, Error> {
        Ok(Workers::new(self.store(), self.operators()?))
    }
}

/// Leaves of what a worker would do what its token may do. `false`: nothing is left.
pub fn cut(register: &mut Register, grant: &Grant) -> bool {
    let limits = grant.limits();
    if let Some(allowed) = &limits.queues {
        let kept = allowed.iter().filter(|queue| register.queues.contains(queue)).cloned();
        register.queues = Serves::Only(kept.collect());
    }
    if let Some(allowed) = &limits.tasks {
        register.worker.tasks.retain(|task, _| allowed.contains(task));
    }
    let no_queue = matches!(&register.queues, Serves::Only(queues) if queues.is_empty());
    !no_queue && !register.worker.tasks.is_empty()
}

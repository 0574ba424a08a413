//! Sealed queues: one is quiet when every transaction that was open at its seal has ended, with the jobs it brought.
//!
//! A job whose transaction began before the seal and commits after it was submitted in time; a queue that waits for the sealed
//! one must wait for that job too.

use std::collections::BTreeMap;

use turnwise_core::{QueueName, Timestamp, settings::Settings};
use turnwise_store::Writers;

/// Seals that are not quiet yet: when each was set, and a writer that began after all that were open then.
#[derive(Debug, Default)]
pub(crate) struct Seals(BTreeMap<QueueName, (Timestamp, Option<u64>)>);

impl Seals {
    /// Notes what is sealed. `true`: a seal waits for news that are asked for from now on.
    pub(crate) fn see(&mut self, settings: &Settings) -> bool {
        let sealed = |name: &QueueName| {
            let queue = settings.queues.get(name)?;
            queue.sealed.filter(|_| !queue.closed())
        };
        self.0.retain(|name, (at, _)| sealed(name) == Some(*at));
        for name in settings.queues.keys() {
            if let Some(at) = sealed(name) {
                self.0.entry(name.clone()).or_insert((at, None));
            }
        }
        self.0.values().any(|(_, mark)| mark.is_none())
    }

    /// Whether no seal waits. If one does, news must be polled: no bell rings for a transaction that ends without jobs.
    pub(crate) fn are_quiet(&self) -> bool {
        self.0.is_empty()
    }

    /// The queues that are quiet according to these news, each with its seal. The news must have been asked for after the seals
    /// were seen: news from before may not know of a transaction that came before the seal.
    pub(crate) fn hear(&mut self, writers: Writers) -> Vec<(QueueName, Timestamp)> {
        let mut quiet = Vec::new();
        for (name, (at, mark)) in &mut self.0 {
            if writers.over >= *mark.get_or_insert(writers.next) {
                quiet.push((name.clone(), *at));
            }
        }
        quiet
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::settings::QueueSettings;

    use super::*;

    fn sealed(at: Option<i64>, quiet: Option<i64>) -> Settings {
        let (sealed, quiet) = (at.map(Timestamp::from_micros), quiet.map(Timestamp::from_micros));
        let mut settings = Settings::default();
        settings.queues.insert(queue(), QueueSettings { sealed, quiet, ..QueueSettings::default() });
        settings
    }

    fn queue() -> QueueName {
        QueueName::new("q").unwrap()
    }

    fn quiet(seal: i64) -> (QueueName, Timestamp) {
        (queue(), Timestamp::from_micros(seal))
    }

    #[test]
    fn a_queue_is_quiet_when_the_writers_before_its_seal_are_over() {
        let mut seals = Seals::default();
        assert!(seals.see(&sealed(Some(1), None)));
        assert_eq!(seals.hear(Writers { over: 5, next: 9 }), []);
        assert!(!seals.see(&sealed(Some(1), None)), "it is being waited for already");
        assert_eq!(seals.hear(Writers { over: 8, next: 20 }), [], "later ones do not count, but one before is open");
        assert_eq!(seals.hear(Writers { over: 9, next: 30 }), [quiet(1)]);
        assert_eq!(seals.hear(Writers { over: 9, next: 30 }), [quiet(1)], "until it is written down");
        assert!(!seals.see(&sealed(Some(1), Some(2))));
        assert_eq!(seals.hear(Writers { over: 9, next: 30 }), []);
    }

    #[test]
    fn where_one_at_a_time_writes_a_sealed_queue_is_quiet_at_once() {
        let mut seals = Seals::default();
        assert!(seals.see(&sealed(Some(1), None)));
        assert_eq!(seals.hear(Writers::default()), [quiet(1)]);
    }

    #[test]
    fn a_seal_that_is_set_again_is_waited_for_again() {
        let mut seals = Seals::default();
        seals.see(&sealed(Some(1), None));
        seals.hear(Writers { over: 5, next: 9 });
        assert!(!seals.see(&sealed(None, None)));
        assert!(seals.see(&sealed(Some(3), Some(2))), "quiet since before the seal means nothing");
        assert_eq!(seals.hear(Writers { over: 9, next: 12 }), []);
        assert_eq!(seals.hear(Writers { over: 12, next: 12 }), [quiet(3)]);
    }
}

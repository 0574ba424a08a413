//! Decisions about many jobs at once.

use turnwise_core::{
    State,
    lifecycle::{self, Event, Standing, Target},
};
use turnwise_store::{Filter, Intervention, Settled};

use crate::{Error, Turnwise};

/// What cancelling many jobs came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CancelledAll {
    /// They had not begun and never will.
    pub at_once: usize,
    /// They are in nodes' hands, which are told to stop them.
    pub requested: usize,
    /// They changed meanwhile, or an open transaction holds them: look at them again.
    pub left: usize,
}

impl Turnwise {
    /// Stops the unfinished jobs that `filter` names, up to its limit, the newest first: in one transaction, where
    /// [`Turnwise::cancel`] takes one for each.
    ///
    /// After an error some of them may have been stopped; calling again is safe.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use turnwise::{Filter, JobRequest, Turnwise};
    ///
    /// let turnwise = Turnwise::open("memory:").await?;
    /// turnwise.submit_all((0..3).map(|n| JobRequest::new("mail", &n).group("acme"))).await?;
    /// let stopped = turnwise.cancel_all(Filter { group: Some("acme".to_owned()), ..Filter::default() }).await?;
    /// assert_eq!(stopped.at_once, 3);
    /// # Ok(()) }
    /// ```
    pub async fn cancel_all(&self, filter: Filter) -> Result<CancelledAll, Error> {
        // None named means all, here as well.
        let wanted = |state: &State| !state.finished() && filter.wants(*state);
        let states: Vec<_> = State::ALL.into_iter().filter(wanted).collect();
        let mut stopped = CancelledAll::default();
        if states.is_empty() {
            return Ok(stopped);
        }
        let (jobs, now) = (self.jobs(Filter { states, ..filter }).await?, self.now().await?);
        let decisions = jobs.iter().map(|job| {
            let to = lifecycle::decide(&Standing::from(job), &Event::Cancel, now, 0.0)?;
            Ok(Intervention { job: job.id, state: job.state, fence: job.fence, to })
        });
        let mut decisions = decisions.collect::<Result<Vec<_>, Error>>()?;
        // Two who do the same never wait for each other in a circle.
        decisions.sort_unstable_by_key(|decision| decision.job);
        let targets: Vec<_> = decisions.iter().map(|decision| decision.to.to.clone()).collect();
        // Whether jobs that end by this are kept.
        self.hear_of_installation().await?;
        let replies = self.store().control(decisions).await?;
        for (reply, target) in replies.iter().zip(targets) {
            match (reply, target) {
                (Settled::Applied, Target::CancelRequested) => stopped.requested += 1,
                (Settled::Applied, _) => stopped.at_once += 1,
                _ => stopped.left += 1,
            }
        }
        Ok(stopped)
    }
}

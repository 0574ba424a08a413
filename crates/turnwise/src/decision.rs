//! Which decision a person may make about a job in which state.

use turnwise_core::{
    JobState,
    lifecycle::{self, Trigger},
};

/// What a person may decide about one job, or about all jobs that a filter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// [`Turnwise::cancel`](crate::Turnwise::cancel).
    Cancel,
    /// [`Turnwise::retry`](crate::Turnwise::retry).
    Retry,
    /// [`Turnwise::rerun`](crate::Turnwise::rerun).
    Rerun,
    /// [`Turnwise::fail`](crate::Turnwise::fail).
    Fail,
    /// [`Turnwise::change`](crate::Turnwise::change).
    Change,
}

impl Decision {
    /// Whether it is possible for a job in this state, as the table of moves says. One job may refuse it all the same: a job that holds a
    /// unique key within its queue cannot be moved to another one.
    pub fn may(self, state: JobState) -> bool {
        let event = match self {
            Self::Cancel => Trigger::Cancel,
            Self::Retry => Trigger::Retry,
            Self::Rerun => Trigger::Rerun,
            Self::Fail => Trigger::GiveUp,
            Self::Change => Trigger::Edit,
        };
        lifecycle::allows(state, event)
    }

    /// The states that are meant if none is named: commands and servers use it. Not all that are possible: of retries only failed
    /// jobs, since stuck ones have a retry before them and cancelled ones were to end. [`Turnwise::retry_all`](crate::Turnwise::retry_all)
    /// and its like take all that are possible.
    pub fn usual(self) -> Vec<JobState> {
        match self {
            Self::Retry => vec![JobState::Failed],
            Self::Rerun => vec![JobState::Success],
            Self::Cancel | Self::Fail | Self::Change => {
                JobState::ALL.into_iter().filter(|state| self.may(*state)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use JobState::*;

    use super::*;

    #[test]
    fn each_decision_is_possible_in_the_states_that_the_guides_name() {
        let states =
            |decision: Decision| -> Vec<_> { JobState::ALL.into_iter().filter(|state| decision.may(*state)).collect() };
        assert_eq!(states(Decision::Cancel), [Waiting, Scheduled, Running, Stuck]);
        assert_eq!(states(Decision::Retry), [Stuck, Failed, Cancelled]);
        assert_eq!(states(Decision::Rerun), [Stuck, Success, Failed, Cancelled]);
        assert_eq!(states(Decision::Fail), [Stuck]);
        assert_eq!(states(Decision::Change), [Waiting, Stuck]);
    }

    #[test]
    fn what_is_usual_is_possible() {
        for decision in [Decision::Cancel, Decision::Retry, Decision::Rerun, Decision::Fail, Decision::Change] {
            assert!(!decision.usual().is_empty());
            assert!(decision.usual().into_iter().all(|state| decision.may(state)), "{decision:?}");
        }
    }
}

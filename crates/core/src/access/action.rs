//! What can be asked for, the scope that each needs, and how far it reaches.

use super::Scope;

/// How much of the installation an action concerns; decides what a limited token may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Jobs, or what is shown of a queue, group or task: within the limits.
    Own,
    /// A queue, group or task with all of its jobs: only if the token is limited in no other respect.
    Whole,
    /// Everything: never with a limited token.
    Installation,
}

macro_rules! actions {
    ($( $(#[$doc:meta])* $action:ident, $scope:ident, $reach:ident, $words:literal; )*) => {
        /// What is asked for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Action {
            $( $(#[$doc])* $action, )*
        }

        impl Action {
            /// Every action, by the scope that it needs.
            pub const ALL: &'static [Action] = &[$( Self::$action ),*];

            /// The scope that it needs; others may [include](Scope::includes) it.
            pub fn scope(self) -> Scope {
                match self { $( Self::$action => Scope::$scope ),* }
            }

            /// How far it reaches.
            pub fn reach(self) -> Reach {
                match self { $( Self::$action => Reach::$reach ),* }
            }

            /// What it is, for people.
            pub fn words(self) -> &'static str {
                match self { $( Self::$action => $words ),* }
            }
        }
    };
}

actions! {
    /// Submit jobs.
    Submit, Submit, Own, "submit jobs, one or many";
    /// Submit a job again that is there, perhaps with changes.
    Resubmit, Submit, Own, "submit a job again, with changes";
    /// A job with its attempts, log and result.
    ReadJob, Read, Own, "read a job, its attempts, its log and its result; wait for its end";
    /// Lists of jobs.
    ListJobs, Read, Own, "list jobs";
    /// Why a job does not run.
    Why, Read, Own, "ask why a job does not run";
    /// Events of jobs and queues.
    Events, Read, Own, "listen to events";
    /// Sums and charts.
    Statistics, Read, Own, "read the overview and statistics";
    /// A queue's settings and state.
    ReadQueue, Read, Own, "read a queue's settings and state";
    /// A group's settings.
    ReadGroup, Read, Own, "read a group's settings";
    /// A task's settings.
    ReadTask, Read, Own, "read a task's settings";
    /// A key's settings.
    ReadKey, Read, Own, "read a key's settings";
    /// A schedule.
    ReadSchedule, Read, Own, "read a schedule";
    /// A ticket for a page that is embedded in another.
    MakeTicket, Read, Own, "make a ticket for the embedded page, which may do no more than the token itself";
    /// What would run when.
    Simulate, Read, Installation, "simulate";
    /// Numbers for a monitoring program.
    Metrics, Read, Installation, "read the metrics";
    /// The nodes.
    ReadNodes, Read, Installation, "read the nodes";
    /// What is set for the installation.
    ReadInstallation, Read, Installation, "read the installation's settings";
    /// What is wrong, and what to do.
    Diagnose, Read, Installation, "ask what is wrong with the installation (`doctor`)";
    /// Cancel, retry, fail, run again.
    DecideJob, Operate, Own, "cancel, retry, fail a job, or run it again";
    /// Priority, time or queue of a waiting job.
    ChangeJob, Operate, Own, "change a waiting job's priority, time or queue";
    /// Decisions about all jobs of a filter.
    Bulk, Operate, Own, "decide about many jobs by a filter";
    /// Pause, resume, seal.
    OperateQueue, Operate, Whole, "pause, resume or seal a queue";
    /// Pause or resume a group.
    OperateGroup, Operate, Whole, "pause or resume a group";
    /// Drain a node, or let it go on.
    OperateNode, Operate, Installation, "drain a node, or let it take jobs again";
    /// Pause or resume a schedule.
    OperateSchedule, Operate, Own, "pause or resume a schedule";
    /// A queue's settings.
    SetQueue, Admin, Whole, "change a queue's settings, or reset them";
    /// A group's settings.
    SetGroup, Admin, Whole, "change a group's settings, or reset them";
    /// A task's settings.
    SetTask, Admin, Whole, "change a task's settings, or reset them";
    /// A key's settings.
    SetKey, Admin, Whole, "change a key's settings, or reset them";
    /// A schedule, new or there.
    SetSchedule, Admin, Own, "create, change or delete a schedule";
    /// What is set for the installation.
    SetInstallation, Admin, Installation, "change the installation's settings";
    /// Delete what is not kept any more.
    Prune, Admin, Installation, "prune";
    /// Tokens.
    Tokens, Admin, Installation, "create, list and revoke tokens";
    /// The record of operators' changes.
    Audit, Admin, Installation, "read the audit log";
    /// A foreign worker's life.
    Work, Work, Own, "work: register, take jobs, report their progress and their ends";
}

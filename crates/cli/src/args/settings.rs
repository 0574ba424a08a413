//! Commands about what is set: queues, groups, tasks, keys, the installation.

use clap::Subcommand;

use super::Listing;

#[derive(Debug, clap::Args)]
pub(crate) struct OneNode {
    #[command(subcommand)]
    pub(crate) verb: NodeVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeVerb {
    /// Gives the node no more jobs; those in its hands go on, and its next life takes jobs again
    Drain(NamedNode),
    /// Gives the node jobs again
    Resume(NamedNode),
}

#[derive(Debug, clap::Args)]
pub(crate) struct NamedNode {
    /// The node's name
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneQueue {
    #[command(subcommand)]
    pub(crate) verb: QueueVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// Changes the given settings and leaves the others
    Set(Box<SetQueue>),
    /// Assigns no more jobs of the queue to nodes; running jobs go on
    Pause(PauseKnown),
    /// Ends the pause
    Resume(Known),
    /// Declares that no more jobs will come: once the queue is empty it is finished, and the queues after it may start
    Seal(Seal),
    /// Cancels all jobs of the queue that no node has, after showing them; running jobs go on
    Empty(Empty),
    /// Removes everything that is set for the queue, a pause and a seal too
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Empty {
    /// The queue's name
    pub(crate) name: String,
    /// Only show which jobs would be cancelled
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// A name that something is known about: mistyped ones are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Known {
    /// Its name
    pub(crate) name: String,
    /// Although no job and no setting has this name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Seal {
    #[command(flatten)]
    pub(crate) queue: Known,
    /// Remove the seal: more jobs may come after all
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetQueue {
    /// The queue's name
    pub(crate) name: String,
    /// Its share among the queues, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number, serial (one by one, in the order of submission) or unlimited
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Jobs at a time on one node: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) per_node: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many jobs of high and of low priority in turn: 2,1 or strict; none = as set for the installation
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// What a turn costs a group: time (as long as the run took) or turns (one each) [default: time]
    #[arg(long)]
    pub(crate) fairness: Option<String>,
    /// What a failed job does to the queue: block, skip or pause [default: block]
    #[arg(long)]
    pub(crate) on_error: Option<String>,
    /// Wait until this queue is finished (sealed and empty); may be repeated; none = wait for no queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) after: Vec<String>,
    /// When jobs become due that have no time of their own: a cron pattern like "0 2 * * *", optionally with a field for
    /// seconds before it; or none
    #[arg(long, value_name = "CRON", allow_hyphen_values = true)]
    pub(crate) schedule: Option<String>,
    /// The time zone of the schedule, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    pub(crate) zone: Option<String>,
    /// Start nothing in this window, like "Mon-Fri 09:00-17:00 Europe/Berlin"; days and zone (UTC) may be left out; may be
    /// repeated; none = no window
    #[arg(long, value_name = "WINDOW", allow_hyphen_values = true)]
    pub(crate) block: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneGroup {
    #[command(subcommand)]
    pub(crate) verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// Changes the given settings and leaves the others
    Set(Box<SetGroup>),
    /// Assigns no more jobs of the group to nodes; running jobs go on
    Pause(PauseKnown),
    /// Ends the pause
    Resume(Known),
    /// Removes everything that is set for the group, a pause too
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetGroup {
    /// The group's name
    pub(crate) name: String,
    /// Its share among the groups of a queue, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many jobs of high and of low priority in turn: 2,1 or strict; none = as set for its queue
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// Most waiting jobs: a number or none. While the dispatcher counts that many, submits are refused; it counts once a second,
    /// so what is submitted within a second, or in one submit, may go beyond
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) max_waiting: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Installation {
    #[command(subcommand)]
    pub(crate) verb: InstallationVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InstallationVerb {
    /// Shows the settings
    Show(Listing),
    /// Changes the given settings and leaves the others; nodes use them from their next heartbeat on
    Set(SetInstallation),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetInstallation {
    /// How many jobs of high and of low priority in turn: 2,1 or strict; queues and groups may have their own [default: 2,1]
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// How long finished jobs are kept, also by state: 7d, or success=0,failed=30d; 0 = they are deleted at once; none = 7d
    #[arg(long, value_name = "RETENTION")]
    pub(crate) retention: Option<String>,
    /// How many lines of a job's log are kept, the oldest go first: a number; none = 10000
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) log_lines: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneLimited {
    #[command(subcommand)]
    pub(crate) verb: LimitedVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LimitedVerb {
    /// Changes the given settings and leaves the others
    Set(SetLimits),
    /// Removes its limits
    Reset(Known),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetLimits {
    /// The name of the task or key
    pub(crate) name: String,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Most job starts in a period, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    /// Its name
    pub(crate) name: String,
    /// The reason for the pause, shown by `why` and the listings
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PauseKnown {
    #[command(flatten)]
    pub(crate) pause: Pause,
    /// Although no job and no setting has this name
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// Its name
    pub(crate) name: String,
}

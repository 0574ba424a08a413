//! What was typed. Values stay text here and are read by core, so that every error names its field in the same way.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, error::ErrorKind};

use crate::error::complain;

/// A durable job queue in which every group gets its turn.
///
/// Settings come from flags, then from TURNWISE_* variables (TURNWISE_DATABASE, TURNWISE_SLOTS, …), then from
/// turnwise.toml.
#[derive(Debug, Parser)]
#[command(name = "turnwise", version, propagate_version = true)]
pub(crate) struct Args {
    /// sqlite:FILE or postgres://USER@HOST/NAME [default: sqlite:turnwise.db]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The file with the settings [default: turnwise.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What to log to stderr: error, warn, info, debug, trace, or a filter like turnwise_executor=debug
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows groups taking turns, live, with nothing installed: one floods, the others come later
    Demo(Demo),
    /// Runs a node: takes jobs and runs their tasks
    Serve(Box<Serve>),
    /// Submits a job and prints its id
    Enqueue(Box<Enqueue>),
    /// Lists jobs, newest first
    Jobs(Jobs),
    /// Shows all that is known of a job, and what it waits for
    Job(ShowJob),
    /// Shows what a job has said
    Logs(Logs),
    /// Stops jobs: at once, or by telling the node that runs them
    Cancel(Ids),
    /// Runs stuck jobs now, and failed or cancelled ones again
    Retry(Retry),
    /// Marks stuck jobs as failed
    Fail(Ids),
    /// Lists nodes
    Nodes(Nodes),
    /// Says why a job does not run yet, and when it will
    Why(OneJob),
    /// Lists queues: what is set for them and how much there is
    Queues(Listing),
    /// Sets, pauses, resumes or seals a queue
    Queue(OneQueue),
    /// Lists groups: what is set for them and how much there is
    Groups(Listing),
    /// Sets, pauses or resumes a group
    Group(OneGroup),
    /// Submits jobs again and again: adds, lists, pauses, resumes, removes or runs a schedule
    Schedule(OneSchedule),
    /// Limits a task, whatever its queues and groups
    Task(OneLimited),
    /// Limits a key that jobs share
    Key(OneLimited),
    /// Shows or sets what holds for all nodes: the counting scheme, how long finished jobs and their logs are kept
    Installation(Installation),
    /// Shows how long groups would wait if something were changed; changes nothing
    Simulate(Simulate),
    /// Shows live who uses the slots, and whose they are by weight
    Top(Top),
    /// Measures how fast this database is with jobs, with jobs of its own that it takes away again
    Bench(Box<Bench>),
    /// Deletes finished jobs that need not be kept any longer
    Prune(Prune),
    /// Brings the schema of the database up to date
    Migrate(Migrate),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// Groups, with the one that floods [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) groups: Option<String>,
    /// Jobs at a time [default: 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// How long it may take, at most
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) minutes: Option<String>,
    /// How long it may take, at most [default: 20]
    #[arg(long, value_name = "N", conflicts_with = "minutes", allow_hyphen_values = true)]
    pub(crate) seconds: Option<String>,
    /// Jobs of the flood [default: half of what the slots can do in the time]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) flood: Option<String>,
    /// Without fairness: first come, first served
    #[arg(long)]
    pub(crate) fifo: bool,
    /// Where to draw the picture [default: turnwise-demo.svg]
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The node's name, unique in the fleet [default: the host's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Jobs at a time, as a rule [default: two per core]
    #[arg(long, visible_alias = "slots", value_name = "N", allow_hyphen_values = true)]
    pub(crate) core_pool_size: Option<String>,
    /// Jobs at a time while more are held ready than can begin at once, at most [default: as --core-pool-size]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) max_pool_size: Option<String>,
    /// Know the tasks noop, sleep {"ms":n}, flaky {"fail":n} and spin {"ms":n}
    #[arg(long)]
    pub(crate) demo_tasks: bool,
    /// End with code 0 when nothing is left that could run
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Serve this queue only; may be repeated [default: all that are bound to no pool of the settings file]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// How long a silent node is believed to live [default: 5s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease: Option<String>,
    /// How often to look without being rung for [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) poll_interval: Option<String>,
    /// Jobs after which to look for what no bell told of, at the latest [default: 1000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) look_every: Option<String>,
    /// What the threads are called that run tasks, with a number behind it [default: task-]
    #[arg(long, value_name = "TEXT")]
    pub(crate) thread_name_prefix: Option<String>,
    /// Jobs held ready beyond the slots, at most [default: 8000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) queue_capacity: Option<String>,
    /// Jobs given to this node at once, and settled at once, at most [default: 2000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) batch_size: Option<String>,
    /// Whether running tasks may finish when the node stops [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) wait_for_tasks_on_shutdown: Option<String>,
    /// How long they may take for it [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) await_termination: Option<String>,
    /// Connections to PostgreSQL, at most; those of transactional tasks come on top [default: 10]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) connections: Option<String>,
    /// Transactional tasks with a transaction open, at most, each with a connection of its own [default: one for each slot]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) task_connections: Option<String>,
    /// Append a record of the run to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Enqueue {
    /// The task's name
    #[arg(required_unless_present = "stdin", allow_hyphen_values = true)]
    pub(crate) task: Option<String>,
    /// The task's arguments [default: null]
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// [default: default]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Whom the job belongs to; groups take turns [default: default]
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Something jobs share that there is only so much of; jobs with the same key have one limit in common
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), high (3) or low (8) [default: 5]
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Not before this time, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "in", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Not before this much time has passed, like 10s, 5m or 2h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// durations:10s,20s or exponential:10s,5 or manual or none [default: exponential:10s,5]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take, like 30s [default: as its task says]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Fail without a run if it has not begun after this long, like 10m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) expires: Option<String>,
    /// At most one job with this key at a time: while another holds it, that one's id is printed and nothing is added
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) unique: Option<String>,
    /// At most one job of this task with these arguments at a time
    #[arg(long, conflicts_with = "unique")]
    pub(crate) unique_by_args: bool,
    /// What the key is unique within: task, queue, group, or any other name [default: task]
    #[arg(long, value_name = "SCOPE", allow_hyphen_values = true)]
    pub(crate) unique_scope: Option<String>,
    /// Hold the key for this long from the submit, like 10m, whether the job has ended or not [default: until it has ended]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) unique_for: Option<String>,
    /// While another job holds the key: keep it, reject this one (exit code 3), or replace-args of one that has not begun
    /// [default: keep]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) on_duplicate: Option<String>,
    /// Begin when these jobs have ended
    #[arg(long, value_name = "ID[,ID…]", value_delimiter = ',')]
    pub(crate) after: Vec<String>,
    /// What follows when one of them fails or is cancelled: fail, run or cancel [default: fail]
    #[arg(long, value_name = "WHAT", requires = "after")]
    pub(crate) on_failure: Option<String>,
    /// Read jobs from stdin, one JSON object a line (task, args, queue, group, key, priority, at, in, retry, timeout,
    /// expires, unique, unique_by_args, unique_scope, unique_for, on_duplicate, as, after, on_failure): all or none. "as"
    /// names a job for the other lines, "after" is a list of names and ids, or "*" for all other lines
    #[arg(long, conflicts_with_all = ["task", "args", "queue", "group", "key", "priority", "at", "in", "retry", "timeout", "expires", "unique", "unique_by_args", "unique_scope", "unique_for", "on_duplicate", "after", "on_failure"])]
    pub(crate) stdin: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    /// waiting, scheduled, running, stuck, success, failed or cancelled; may be repeated
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(crate) states: Vec<String>,
    #[arg(long)]
    pub(crate) queue: Option<String>,
    #[arg(long)]
    pub(crate) group: Option<String>,
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// At most this many, up to 1000000 [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Count them by what went wrong instead of listing them; of all, unless there is a limit
    #[arg(long, value_name = "error", value_parser = ["error"])]
    pub(crate) by: Option<String>,
    /// One JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowJob {
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Show its state and progress until it ends
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Show who waits for whom, around this job
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub(crate) graph: bool,
    /// Draw that as a picture, too
    #[arg(long, value_name = "FILE", requires = "graph")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    pub(crate) id: String,
    /// Go on with what it says, until it ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The last N lines only
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) lines: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneJob {
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ids {
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    #[arg(required_unless_present = "filter", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All jobs of which these hold: state (failed unless said), task, queue, group, fingerprint; like
    /// "task=mail fingerprint=3f0c…"
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "ids", num_args = 1..)]
    pub(crate) filter: Vec<String>,
    /// At most this many, newest first
    #[arg(long, value_name = "N", requires = "filter", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Only show which jobs it would be
    #[arg(long, requires = "filter")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short, requires = "filter")]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// drain: run a full table of jobs. submit: store jobs one by one, from many callers at once. bulk: store them in
    /// batches of 10000. latency: one job every 50 ms, from its commit to its start. lifecycle: submit and run at once,
    /// from submit to stored end. pinned: drain while another session holds a snapshot open. idle: what a node asks of the server
    /// that has nothing to do
    #[arg(long, value_name = "MODE", default_value = "drain", hide_possible_values = true,
        value_parser = ["drain", "submit", "bulk", "latency", "lifecycle", "pinned", "idle"])]
    pub(crate) mode: String,
    /// Jobs [default: 100000; 20000 for submit and lifecycle, 200 for latency, 300000 for pinned]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) jobs: Option<String>,
    /// Groups that they belong to, in turn [default: 1000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) groups: Option<String>,
    /// How long a job's arguments are, at least [default: 100]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub(crate) args_bytes: Option<String>,
    /// Jobs at a time [default: as a node of these settings]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// Who submit at once, in submit and lifecycle [default: 50]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) callers: Option<String>,
    /// How long to look at an idle node [default: 30]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) seconds: Option<String>,
    /// For latency: who submits, who dispatches and who runs have nothing in common but the database
    #[arg(long)]
    pub(crate) other_node: bool,
    /// Whether finished jobs are deleted at once or kept, until the end of the measurement
    #[arg(long, value_name = "WHAT", default_value = "delete", value_parser = ["delete", "keep"])]
    pub(crate) history: String,
    /// Measure beside other jobs and nodes of this database, which are left alone
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Prune {
    /// Go by this instead of what is set for the installation: 7d, or success=0,failed=30d; 0 = keep none
    #[arg(long, value_name = "RETENTION")]
    pub(crate) retention: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    /// One JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    /// One JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneQueue {
    #[command(subcommand)]
    pub(crate) verb: QueueVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    /// Changes what is given and leaves the rest
    Set(Box<SetQueue>),
    /// Gives no more jobs of the queue to nodes; those that run go on
    Pause(Pause),
    /// Takes the pause back
    Resume(Named),
    /// Says that nothing more comes: once the queue is empty it is finished, and those after it go on
    Seal(Seal),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Seal {
    pub(crate) name: String,
    /// More may come after all
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetQueue {
    pub(crate) name: String,
    /// Its share among the queues, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number, serial (one by one as submitted) or unlimited
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Jobs at a time on one node: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) per_node: Option<String>,
    /// Starts in so much time, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many of high and of low priority in turn: 2,1 or strict; none = as the installation
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// What a turn costs: time or turns [default: time]
    #[arg(long)]
    pub(crate) fairness: Option<String>,
    /// What a failed job does to the queue: block, skip or pause [default: block]
    #[arg(long)]
    pub(crate) on_error: Option<String>,
    /// Wait until this queue is finished (sealed and empty); may be repeated; none = wait for no queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) after: Vec<String>,
    /// When jobs are due that name no time of their own: a cron pattern like "0 2 * * *", with seconds before it if wanted;
    /// or none
    #[arg(long, value_name = "CRON", allow_hyphen_values = true)]
    pub(crate) schedule: Option<String>,
    /// The clock the schedule goes by, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "schedule")]
    pub(crate) zone: Option<String>,
    /// Start nothing in this window, like "Mon-Fri 09:00-17:00 Europe/Berlin"; days and zone (UTC) may be left out; may be
    /// repeated; none = no window
    #[arg(long, value_name = "WINDOW", allow_hyphen_values = true)]
    pub(crate) block: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneSchedule {
    #[command(subcommand)]
    pub(crate) verb: ScheduleVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleVerb {
    /// Sets a schedule, or another in its place, and shows its next times
    Add(Box<AddSchedule>),
    /// Lists schedules with their next times
    List(Listing),
    /// Shows a schedule with its next five times
    Show(Named),
    /// Submits no more jobs of it; those that are there go on
    Pause(Pause),
    /// Goes on from now; what fell into the pause is not made up for
    Resume(Named),
    /// Takes it away; its jobs stay
    Remove(Named),
    /// Submits its job once more, now, beside the plan, and prints its id
    Run(Named),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddSchedule {
    pub(crate) name: String,
    /// The task of its jobs
    pub(crate) task: String,
    /// Its arguments, JSON [default: null]
    #[arg(allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// Minute, hour, day, month and weekday like "0 2 * * *", with seconds before them if wanted
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true, required_unless_present = "every")]
    pub(crate) cron: Option<String>,
    /// By whose clock, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron", allow_hyphen_values = true)]
    pub(crate) zone: Option<String>,
    /// Every so often instead: at the multiples of 10m, 1h 30m, 15s
    #[arg(long, value_name = "SPAN", conflicts_with = "cron", allow_hyphen_values = true)]
    pub(crate) every: Option<String>,
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) group: Option<String>,
    /// Whose limit its jobs count against
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), high or low
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// What to do when a run fails
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// A time that comes while the last job has not ended: skip it, wait for the end, or allow both [default: skip]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) overlap: Option<String>,
    /// Times that passed while no node ran: skip them, one job for all, or all, 100 at most [default: one]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) catch_up: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OneGroup {
    #[command(subcommand)]
    pub(crate) verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// Changes what is given and leaves the rest
    Set(Box<SetGroup>),
    /// Gives no more jobs of the group to nodes; those that run go on
    Pause(Pause),
    /// Takes the pause back
    Resume(Named),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetGroup {
    pub(crate) name: String,
    /// Its share among the groups of a queue, 0.001 to 1000 [default: 1]
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    pub(crate) weight: Option<String>,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Starts in so much time, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// How many of high and of low priority in turn: 2,1 or strict; none = as its queue
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// Most waiting jobs; a submit beyond is refused: a number or none
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
    /// Shows what is set
    Show(Listing),
    /// Changes what is given and leaves the rest; nodes go by it from their next beat on
    Set(SetInstallation),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetInstallation {
    /// How many of high and of low priority in turn: 2,1 or strict; queues and groups may have their own [default: 2,1]
    #[arg(long)]
    pub(crate) scheme: Option<String>,
    /// How long finished jobs are kept, by state if wanted: 7d, or success=0,failed=30d; 0 = they are deleted at once; none = 7d
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
    /// Changes what is given and leaves the rest
    Set(SetLimits),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetLimits {
    pub(crate) name: String,
    /// Jobs at a time in the whole fleet: a number or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) concurrency: Option<String>,
    /// Starts in so much time, like 10/1m, or 10/1m,20 with a burst; or none
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    pub(crate) name: String,
    /// Told by `why` and the listings
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// If the fleet had so many slots
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) slots: Option<String>,
    /// If the group had this weight; may be repeated
    #[arg(long = "weight", value_name = "GROUP=W")]
    pub(crate) weights: Vec<String>,
    /// If the queue had this concurrency (a number, serial or unlimited); may be repeated
    #[arg(long, value_name = "QUEUE=N")]
    pub(crate) concurrency: Vec<String>,
    /// If the group were paused; may be repeated
    #[arg(long = "pause", value_name = "GROUP")]
    pub(crate) pauses: Vec<String>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// Print one frame and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Migrate {
    /// Print the SQL of all steps and change nothing
    #[arg(long)]
    pub(crate) print: bool,
    /// List the steps that are missing and change nothing; exit code 1 if there are any
    #[arg(long, conflicts_with = "print")]
    pub(crate) check: bool,
}

impl Args {
    /// Reads the command line; the code to end with where there is nothing to do.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // A closed stdout is no reason to fail: nobody wants the help any more.
                let _ = error.print();
                ExitCode::SUCCESS
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let _ = error.print();
                ExitCode::from(2)
            }
            _ => {
                complain(&first_paragraph(&error.to_string()));
                ExitCode::from(2)
            }
        })
    }
}

/// What is wrong, without the usage below it.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_mistake_in_the_command_line_is_one_line() {
        for typed in [&["turnwise", "serve", "--slotz"][..], &["turnwise", "job"], &["turnwise", "frobnicate"]] {
            let text = first_paragraph(&Args::try_parse_from(typed).unwrap_err().to_string());
            assert!(!text.contains('\n') && !text.starts_with("error") && text.len() > 10, "{text}");
        }
    }
}

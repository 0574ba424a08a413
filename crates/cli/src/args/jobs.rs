//! Commands about jobs: submit, look, decide, prune.

use std::path::PathBuf;

use super::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Enqueue {
    /// The task's name
    #[arg(required_unless_present = "stdin")]
    pub(crate) task: Option<String>,
    /// The task's arguments: JSON, @FILE with JSON, or - for JSON from stdin [default: null]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) args: Option<String>,
    /// The job's queue [default: default]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The group that the job belongs to, like a customer; groups take turns [default: default]
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// A name for a limited resource that jobs share; all jobs with the same key share one limit
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), or high (3) or low (8); 1 to 5 count as high, 6 to 10 as low [default: 5]
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Start the job not before this time, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "in", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Start the job not before this much time has passed, like 10s, 5m or 2h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// When to retry a failed run: durations:10s,20s or exponential:10s,5 or manual or none [default: the task's own policy, else
    /// exponential:10s,5]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take, like 30s [default: the task's own limit]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Fail the job without a run if it has not begun after this long, like 10m
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) expires: Option<String>,
    /// At most one job with this key at a time: while another job holds the key, its id is printed and nothing is added
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) unique: Option<String>,
    /// At most one job of this task with these arguments at a time
    #[arg(long, conflicts_with = "unique")]
    pub(crate) unique_by_args: bool,
    /// What the key is unique within: task, queue, group, or any other name [default: task]
    #[arg(long, value_name = "SCOPE", allow_hyphen_values = true)]
    pub(crate) unique_scope: Option<String>,
    /// Hold the key for this long from the submit, like 10m, whether the job has ended or not [default: until the job has ended]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) unique_for: Option<String>,
    /// What to do while another job holds the key: keep that job, reject this one (exit code 3), or replace-args of that job
    /// if it has not begun
    /// [default: keep]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) on_duplicate: Option<String>,
    /// Begin only when these jobs have ended
    #[arg(long, value_name = "ID[,ID…]", value_delimiter = ',')]
    pub(crate) after: Vec<String>,
    /// What to do with this job when one of those fails or is cancelled: fail, run or cancel [default: fail]
    #[arg(long, value_name = "WHAT", requires = "after")]
    pub(crate) on_failure: Option<String>,
    /// Go on as this task, with the same arguments, when the retries run out [default: the task's own setting]
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) on_exhausted: Option<String>,
    /// Go on as this task after a success, with the result as its arguments [default: the task's own setting]
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) next: Option<String>,
    /// Read jobs from stdin, one JSON object a line (task, id, args, queue, group, key, priority, at, in, retry, timeout,
    /// expires, unique, unique_by_args, unique_scope, unique_for, on_duplicate, as, after, on_failure,
    /// on_exhausted, next): all are stored or none.
    /// "as" names a job for the other lines, "after" is a list of names and ids, or "*" for all other lines
    #[arg(long, conflicts_with_all = ["task", "args", "queue", "group", "key", "priority", "at", "in", "retry", "timeout", "expires", "unique", "unique_by_args", "unique_scope", "unique_for", "on_duplicate", "after", "on_failure", "on_exhausted", "next"])]
    pub(crate) stdin: bool,
    /// Wait until the jobs have ended. Prints the result of each, a line of JSON, instead of its id, which goes to stderr. Exit code 0:
    /// all succeeded; 4: one failed; 5: one was cancelled
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Jobs {
    /// Which jobs, as in 'task:extract group:acme args.pages>10 error~timeout'; looks at 20000 jobs at most, the newest first, and says
    /// how far it came
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// The same, as for retry, cancel, fail and change
    #[arg(long = "filter", value_name = "FILTER", num_args = 1.., conflicts_with = "filter")]
    pub(crate) filter_option: Vec<String>,
    /// waiting, scheduled, running, stuck, success, failed or cancelled; may be repeated
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',')]
    pub(crate) states: Vec<String>,
    /// Only jobs of this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only jobs of this group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Only jobs of this task
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Submitted at this time or later: like 2030-01-31T08:30:00Z, or like 2h for two hours ago
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<String>,
    /// Submitted before this time, written as for --since
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<String>,
    /// The job that holds this unique key now; several, if the key is held in several scopes
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) unique: Option<String>,
    /// With this text in the arguments, as they were written; looks at 20000 jobs at most, the newest first, and says how far it came
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) args_contain: Option<String>,
    /// At most this many, up to 1000000 [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Count the jobs by their error instead of listing them; without --limit, up to 1000000 jobs
    #[arg(long, value_name = "error", value_parser = ["error"])]
    pub(crate) by: Option<String>,
    #[command(flatten)]
    pub(crate) table: Table,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowJob {
    /// The job's id
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Show its state and progress until it ends. Exit code 0: it succeeded; 4: it failed; 5: it was cancelled
    #[arg(long, conflicts_with = "json")]
    pub(crate) watch: bool,
    /// Show which jobs wait for which, around this job
    #[arg(long, conflicts_with = "watch")]
    pub(crate) graph: bool,
    /// Also draw the graph into this SVG file
    #[arg(long, value_name = "FILE", requires = "graph")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The job's id
    pub(crate) id: String,
    /// Keep printing new lines until the job ends
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
    /// The job's id
    pub(crate) id: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("which").args(["ids", "filter"]).required(true)))]
pub(crate) struct Chosen {
    /// Ids, or beginnings that only one job's id has
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All jobs that match these conditions: state (default: for retry failed, else all it can be done to), task, queue, group,
    /// fingerprint, args, error and more, as in 'task=mail error~timeout args.pages>10'
    #[arg(long, value_name = "FILTER", num_args = 1..)]
    pub(crate) filter: Vec<String>,
    /// At most this many, newest first
    #[arg(long, value_name = "N", requires = "filter", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    /// Only show which jobs it would be done to
    #[arg(long, requires = "filter")]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short, requires = "filter")]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// 1 (first) to 10 (last), or high (3) or low (8)
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Move the job to this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Start the job not before this much time has passed, like 10s, 5m or 2h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// Start the job not before this time, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "in", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// The job is due at once
    #[arg(long, conflicts_with_all = ["in", "at"])]
    pub(crate) now: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Resubmit {
    /// The job's id, or the beginning of it that only one job's id has
    pub(crate) id: String,
    /// Other arguments: JSON, @FILE with JSON, or - for JSON from stdin. A marker as --show prints it stands for the stored value of a
    /// secret field
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    pub(crate) args: Option<String>,
    /// Another task
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Another queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Another group
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// 1 (first) to 10 (last), or high (3) or low (8)
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// Start it not before this much time has passed, like 10s, 5m or 2h [default: at once]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) r#in: Option<String>,
    /// Start it not before this time, like 2030-01-31T08:30:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "in", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Print what would be submitted without changes, as JSON, and submit nothing: secret fields are replaced by markers
    #[arg(long, conflicts_with_all = ["args", "task", "queue", "group", "priority", "in", "at"])]
    pub(crate) show: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Also run jobs once more that have succeeded: their tasks do all of it again
    #[arg(long)]
    pub(crate) again: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Prune {
    /// Use this retention instead of the one set for the installation: 7d, or success=0,failed=30d; 0 = keep none. Shows how many
    /// jobs that are and asks before it deletes them
    #[arg(long, value_name = "RETENTION")]
    pub(crate) retention: Option<String>,
    /// Only show how many jobs would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub(crate) yes: bool,
}

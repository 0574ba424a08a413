//! Commands about schedules.

use clap::Subcommand;

use super::{Named, Pause, Table};

#[derive(Debug, clap::Args)]
pub(crate) struct OneSchedule {
    #[command(subcommand)]
    pub(crate) verb: ScheduleVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleVerb {
    /// Adds a schedule, or replaces the one with this name, and shows its next times
    Add(Box<AddSchedule>),
    /// Lists schedules with their next times
    List(Table),
    /// Shows a schedule with its arguments, its last run and its next five times
    Show(ShowSchedule),
    /// Submits no more jobs for the schedule; jobs already submitted go on
    Pause(Pause),
    /// Ends the pause; times that passed during the pause are not made up for
    Resume(Named),
    /// Removes the schedule; its jobs stay
    Remove(Named),
    /// Submits its job once now, in addition to its times, and prints the job's id
    Run(Named),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowSchedule {
    /// The schedule's name
    pub(crate) name: String,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("when").args(["cron", "every"]).required(true)))]
pub(crate) struct AddSchedule {
    /// The schedule's name
    pub(crate) name: String,
    /// The task of its jobs
    pub(crate) task: String,
    /// Its arguments: JSON, @FILE with JSON, or - for JSON from stdin [default: null]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub(crate) args: Option<String>,
    /// Minute, hour, day, month and weekday like "0 2 * * *", optionally with a field for seconds before them
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) cron: Option<String>,
    /// The time zone of the pattern, like Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "every", allow_hyphen_values = true)]
    pub(crate) zone: Option<String>,
    /// A fixed interval instead of a pattern: at the multiples of 10m, 1h 30m, 15s
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) every: Option<String>,
    /// The queue of its jobs [default: default]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) queue: Option<String>,
    /// The group that its jobs belong to [default: default]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) group: Option<String>,
    /// The key whose limit its jobs count against
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) key: Option<String>,
    /// 1 (first) to 10 (last), or high (3) or low (8); 1 to 5 count as high, 6 to 10 as low
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    pub(crate) priority: Option<String>,
    /// What to do when a run fails [default: the task's own policy]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) retry: Option<String>,
    /// How long a run may take
    #[arg(long, value_name = "SPAN", allow_hyphen_values = true)]
    pub(crate) timeout: Option<String>,
    /// Go on as this task, with the same arguments, when the retries of a job run out
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) on_exhausted: Option<String>,
    /// Go on as this task after a success, with the result as its arguments
    #[arg(long, value_name = "TASK", allow_hyphen_values = true)]
    pub(crate) next: Option<String>,
    /// What to do when a time comes and the last job has not ended: skip the time, wait for the end, or allow both
    /// [default: skip]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) overlap: Option<String>,
    /// What to do about times that passed while no node ran: skip them, one job for all, or all, 100 at most [default: one]
    #[arg(long, value_name = "POLICY", allow_hyphen_values = true)]
    pub(crate) catch_up: Option<String>,
}

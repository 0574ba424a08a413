//! The command that reads the audit log.

use super::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Only changes of this actor, as the list names it: token:ID, cli:USER@HOST, or a name that a program gave
    #[arg(long, value_name = "ACTOR")]
    pub(crate) actor: Option<String>,
    /// Only changes of this: job:ID, queue:NAME, group:NAME, task:NAME, key:NAME, schedule:NAME, token:ID, decision:NUMBER, node:NAME or installation
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Only changes made at this time or later: a time like 2030-01-31T08:00:00Z, or a duration before now like 1d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only changes made before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// At most so many [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) limit: Option<String>,
    #[command(flatten)]
    pub(crate) table: Table,
}

//! Commands about tokens.

use clap::Subcommand;

use super::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct OneToken {
    #[command(subcommand)]
    pub(crate) verb: TokenVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Creates a token and prints its secret, which is shown this once only
    Create(CreateToken),
    /// Lists tokens, newest first, without their secrets
    List(Table),
    /// Takes a token back for good; servers refuse it within seconds
    Revoke(RevokeToken),
    /// Makes a ticket with the token of --token and prints the address for a frame, which is good for a minute and once
    Ticket(MakeTicket),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CreateToken {
    /// What it is for, in a few words
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: String,
    /// What it may do: submit, read, operate (includes read), admin (includes all but work), work; several with commas
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',', required = true)]
    pub(crate) scopes: Vec<String>,
    /// Only jobs of this queue; may be repeated [default: all]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// Only jobs of this group; may be repeated [default: all]
    #[arg(long = "group", value_name = "GROUP")]
    pub(crate) groups: Vec<String>,
    /// Only jobs of this task; may be repeated [default: all]
    #[arg(long = "task", value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// How long it is accepted, like 30d [default: until it is revoked]
    #[arg(long, value_name = "DURATION")]
    pub(crate) expires: Option<String>,
    /// Most submits a second; each server counts for itself [default: no limit]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) rate: Option<String>,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RevokeToken {
    /// The token's id, or how its secret begins, as `token list` shows both
    #[arg(value_name = "PREFIX|ID")]
    pub(crate) which: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MakeTicket {
    /// Whose jobs the frame shows; may be repeated
    #[arg(long = "group", value_name = "GROUP", required = true)]
    pub(crate) groups: Vec<String>,
    /// Whose pages may show it, like https://app.example; may be repeated
    #[arg(long = "origin", value_name = "ORIGIN", required = true)]
    pub(crate) origins: Vec<String>,
    /// What can be done there: read, operate (includes read) [default: read]
    #[arg(long = "scope", value_name = "SCOPES", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// Only jobs of this queue; may be repeated [default: all]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// Only jobs of this task; may be repeated [default: all]
    #[arg(long = "task", value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

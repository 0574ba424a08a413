//! The audit log: who changed what; and as whom this binary changes things.

use std::{env, fs};

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwise::{
    Invalid, Timestamp, Turnwise,
    audit::{Actor, ActorName, AskAudit, AuditFilter, AuditTarget},
    wire,
};
use turnwise_client::Ask;
use turnwise_core::time::parse_span;

use crate::{
    args,
    error::Failure,
    place::{self, Place, Shown, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// Lines that are shown unless more are asked for.
const LIMIT: u32 = 100;
/// Lines that are read at a time.
const PAGE: u32 = 1_000;
/// Longest name of a user and of a host, in characters; together they fit into an actor's name, whatever they are written in.
const LONGEST: usize = 48;

pub(crate) fn audit(settings: &Settings, call: &args::Audit) -> Result<(), Failure> {
    let limit = match call.limit.as_deref().map(str::parse::<u32>) {
        None => LIMIT,
        Some(Ok(limit)) if limit > 0 => limit,
        Some(_) => {
            let given = call.limit.as_deref().unwrap_or_default();
            return Err(Invalid::new("limit", format!("must be a number from 1 on, not {given:?}")).into());
        }
    };
    let actor = call.actor.as_deref().map(ActorName::new).transpose()?;
    let target = call.target.as_deref().map(str::parse::<AuditTarget>).transpose()?;
    let (since, until) = (moment("since", call.since.as_deref())?, moment("until", call.until.as_deref())?);
    let lines = block_on(async {
        let place = Place::find(settings).await?;
        let now = if since.is_some() || until.is_some() { place.now().await? } else { Timestamp::MIN };
        let (since, until) = (since.map(|since| since.at(now)), until.map(|until| until.at(now)));
        match &place {
            Place::Database(turnwise) => {
                in_database(turnwise, AuditFilter { actor, target, since, until }, limit).await
            }
            Place::Server(server) => {
                let ask = Ask::get("/audit")
                    .with_some("actor", call.actor.as_ref())
                    .with_some("target", call.target.as_ref())
                    .with_some("since", since)
                    .with_some("until", until);
                Ok(server.by_cursor(&ask, "lines", limit).await?.items)
            }
        }
    })?;
    if call.table.json {
        print::array(lines)?;
    } else {
        let rows = lines.iter().map(|line| Ok(row(&read(line)?))).collect::<Result<Vec<_>, Failure>>()?;
        print::table(["TIME", "ACTOR", "VERB", "TARGET", "BEFORE", "AFTER"], rows, call.table.wide)?;
    }
    Ok(())
}

async fn in_database(turnwise: &Turnwise, filter: AuditFilter, limit: u32) -> Result<Vec<Shown>, Failure> {
    let (mut lines, mut cursor) = (Vec::new(), None);
    loop {
        let left = limit.saturating_sub(u32::try_from(lines.len()).unwrap_or(u32::MAX));
        let page = turnwise.audit(AskAudit { filter: filter.clone(), cursor, limit: left.min(PAGE) }).await?;
        for line in &page.lines {
            lines.push(place::shown(&wire::AuditLine::new(line))?);
        }
        cursor = page.next;
        if cursor.is_none() || lines.len() >= limit as usize {
            return Ok(lines);
        }
    }
}

/// A [`wire::AuditLine`].
#[derive(Debug, Deserialize)]
struct AuditLine {
    at: Timestamp,
    actor: String,
    actor_name: Option<String>,
    verb: String,
    target: String,
    before: Option<Box<RawValue>>,
    after: Option<Box<RawValue>>,
}

fn row(line: &AuditLine) -> [String; 6] {
    let actor = line.actor_name.as_ref().map_or_else(|| line.actor.clone(), |label| format!("token {label}"));
    let value = |value: &Option<Box<RawValue>>| print::brief(&print::shown(value.as_deref().map(RawValue::get)));
    [
        line.at.to_string(),
        print::clean(&actor),
        print::clean(&line.verb),
        print::clean(&line.target),
        value(&line.before),
        value(&line.after),
    ]
}

/// A time, or how long ago it was.
#[derive(Debug, Clone, Copy)]
enum Moment {
    At(Timestamp),
    Ago(std::time::Duration),
}

impl Moment {
    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => now.minus(span),
        }
    }
}

fn moment(field: &'static str, text: Option<&str>) -> Result<Option<Moment>, Invalid> {
    let read = |text: &str| match (text.parse(), parse_span(field, text)) {
        (Ok(at), _) => Ok(Moment::At(at)),
        (_, Ok(span)) => Ok(Moment::Ago(span)),
        _ => {
            let problem = format!("must be a time like 2030-01-31T08:00:00Z or a duration like 1d, not {text:?}");
            Err(Invalid::new(field, problem))
        }
    };
    text.map(read).transpose()
}

/// As whom the commands of this binary change things: `cli:USER@HOST`.
pub(crate) fn this_user() -> Actor {
    let (user, host) = (part(&user()), part(&host()));
    Actor::named(format!("cli:{user}@{host}")).expect("short, and without control characters")
}

fn part(text: &str) -> String {
    let good = |c: &char| !c.is_control() && !c.is_whitespace();
    let text: String = text.chars().filter(good).take(LONGEST).collect();
    // A character may take four bytes.
    if text.is_empty() || text.len() > 2 * LONGEST { "unknown".to_owned() } else { text }
}

/// What the variables say, else the number of the user.
fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| env::var(name).ok()).find(|name| !name.is_empty());
    named.unwrap_or_else(number)
}

#[cfg(unix)]
fn number() -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map(|this| format!("uid-{}", this.uid())).unwrap_or_default()
}

#[cfg(not(unix))]
fn number() -> String {
    String::new()
}

fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok().filter(|host| !host.trim().is_empty());
    host.unwrap_or_else(|| env::var("HOSTNAME").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_user_is_called_the_name_is_one() {
        for text in ["", " \n", "a b\u{7}", &"x".repeat(500), &"日".repeat(500)] {
            let part = part(text);
            assert!(Actor::named(format!("cli:{part}@{part}")).is_ok() && !part.contains(' '), "{text:?}: {part}");
        }
        assert!(this_user().id().as_str().starts_with("cli:"));
    }
}

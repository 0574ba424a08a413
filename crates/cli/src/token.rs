//! Tokens: who may ask a server for what.

use std::{collections::BTreeSet, num::NonZeroU32, str::FromStr};

use turnwise::{
    Invalid, Timestamp,
    access::{Grant, Limits, NewAccess, Token},
    wire,
};
use turnwise_core::time::parse_span;

use crate::{
    args::{CreateToken, TokenVerb},
    error::{Failure, remark},
    print,
    serve::block_on,
    settings::Settings,
};

pub(crate) fn token(settings: &Settings, verb: &TokenVerb) -> Result<(), Failure> {
    match verb {
        TokenVerb::Create(call) => {
            let access = access(call)?;
            let created = block_on(async { Ok(settings.open().await?.create_token(access).await?) })?;
            if call.json {
                print::object(&wire::CreatedToken::new(&created))?;
            } else {
                remark("the secret of this token is shown this once only:");
                print::lines([created.secret.reveal()])?;
            }
        }
        TokenVerb::List(call) => {
            let (tokens, now) = block_on(async { Ok(settings.open().await?.tokens().await?) })?;
            if call.json {
                print::array(tokens.iter().map(|token| wire::Token::new(token, now)))?;
            } else {
                let header = ["PREFIX", "NAME", "STATE", "SCOPES", "LIMITED TO", "RATE", "EXPIRES", "LAST USE", "ID"];
                print::table(header, tokens.iter().map(|token| row(token, now)), call.wide)?;
            }
        }
        TokenVerb::Revoke(call) => {
            let revoked = block_on(async { Ok(settings.open().await?.revoke_token(&call.token).await?) })?;
            print::lines([format!("token {} ({}) is revoked", revoked.prefix, print::clean(revoked.name.as_str()))])?;
        }
    }
    Ok(())
}

/// All values are read before the database is touched.
fn access(call: &CreateToken) -> Result<NewAccess, Invalid> {
    let scopes = call.scopes.iter().map(|scope| scope.trim().parse()).collect::<Result<Vec<_>, _>>()?;
    let limits = Limits { queues: names(&call.queues)?, groups: names(&call.groups)?, tasks: names(&call.tasks)? };
    let mut access = NewAccess::new(&call.name, Grant::new(scopes, limits)?)?;
    if let Some(span) = &call.expires {
        access = access.expires_in(parse_span("expires", span)?)?;
    }
    if let Some(rate) = &call.rate {
        let bad = |_| Invalid::new("rate", format!("must be a number from 1 on, not {rate:?}"));
        access = access.rate(rate.parse::<NonZeroU32>().map_err(bad)?);
    }
    Ok(access)
}

/// `None` if there are none: the token is not limited.
fn names<N: FromStr<Err = Invalid> + Ord>(texts: &[String]) -> Result<Option<BTreeSet<N>>, Invalid> {
    let names = texts.iter().map(|text| text.parse()).collect::<Result<BTreeSet<N>, _>>()?;
    Ok((!names.is_empty()).then_some(names))
}

fn row(token: &Token, now: Timestamp) -> [String; 9] {
    let words = |words: &mut dyn Iterator<Item = String>| words.collect::<Vec<_>>().join(",");
    let limits = token.grant.limits();
    let limited = [
        limits.queues.as_ref().map(|names| format!("queue {}", words(&mut names.iter().map(ToString::to_string)))),
        limits.groups.as_ref().map(|names| format!("group {}", words(&mut names.iter().map(ToString::to_string)))),
        limits.tasks.as_ref().map(|names| format!("task {}", words(&mut names.iter().map(ToString::to_string)))),
    ];
    let limited: Vec<_> = limited.into_iter().flatten().collect();
    [
        token.prefix.clone(),
        print::brief(token.name.as_str()),
        token.state(now).to_string(),
        words(&mut token.grant.scopes().iter().map(ToString::to_string)),
        if limited.is_empty() { "-".to_owned() } else { print::brief(&limited.join("; ")) },
        token.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/s")),
        print::shown(token.expires_at),
        token.last_used_at.map_or_else(|| "never".to_owned(), |used| format!("{} ago", print::age(now.since(used)))),
        token.id.to_string(),
    ]
}

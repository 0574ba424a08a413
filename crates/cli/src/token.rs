//! Tokens: who may ask a server for what.

use std::num::NonZeroU32;

use serde::Deserialize;
use turnwise::{Invalid, Timestamp, access::Secret, wire};
use turnwise_client::{Ask, encoded};

use crate::{
    args::{CreateToken, TokenVerb},
    error::{Failure, remark},
    place::{self, Place, Shown, read},
    print,
    serve::block_on,
    settings::Settings,
};

/// A [`wire::Token`].
#[derive(Debug, Deserialize)]
struct Token {
    id: String,
    name: String,
    prefix: String,
    scopes: Vec<String>,
    queues: Option<Vec<String>>,
    groups: Option<Vec<String>>,
    tasks: Option<Vec<String>>,
    rate: Option<u32>,
    state: String,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

pub(crate) fn token(settings: &Settings, verb: &TokenVerb) -> Result<(), Failure> {
    match verb {
        TokenVerb::Create(call) => {
            let new = written(call)?;
            // All values are read before the database is touched.
            let access = new.to_access().map_err(singular)?;
            let created = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(turnwise) => {
                        place::shown(&wire::CreatedToken::new(&turnwise.create_token(access).await?))
                    }
                    Place::Server(server) => server.ask(Ask::post("/tokens").json(place::shown(&new)?.get())).await,
                }
            })?;
            if call.json {
                print::indented(created.get())?;
            } else {
                #[derive(Deserialize)]
                struct Created {
                    secret: String,
                }
                remark("the secret of this token is shown this once only:");
                print::lines([read::<Created>(&created)?.secret])?;
            }
        }
        TokenVerb::List(call) => {
            #[derive(Deserialize)]
            struct Tokens {
                now: Timestamp,
                tokens: Vec<Shown>,
            }
            let listed = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(turnwise) => {
                        let (tokens, now) = turnwise.tokens().await?;
                        place::shown(&wire::Tokens::new(&tokens, now))
                    }
                    Place::Server(server) => server.ask(Ask::get("/tokens")).await,
                }
            })?;
            let Tokens { now, tokens } = read(&listed)?;
            if call.json {
                print::array(tokens)?;
            } else {
                let header = ["PREFIX", "NAME", "STATE", "SCOPES", "LIMITED TO", "RATE", "EXPIRES", "LAST USE", "ID"];
                let rows = tokens.iter().map(|token| Ok(row(&read(token)?, now)));
                print::table(header, rows.collect::<Result<Vec<_>, Failure>>()?, call.wide)?;
            }
        }
        TokenVerb::Revoke(call) => {
            let revoked = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(turnwise) => {
                        let revoked = turnwise.revoke_token(&call.which).await?;
                        place::shown(&wire::Token::new(&revoked, turnwise.now().await?))
                    }
                    Place::Server(server) => {
                        // A secret does not belong into a path, which may be logged on its way.
                        let secret = Secret::parse(&call.which);
                        let name = secret.as_ref().map_or(call.which.as_str(), Secret::prefix);
                        let ask = Ask::post(format!("/tokens/{}/revoke", encoded(name)));
                        server.try_ask(ask).await.map_err(|error| match error {
                            turnwise_client::Error::Problem(problem) if problem.word() == "not-found" => {
                                Failure::Input(problem.detail)
                            }
                            other => other.into(),
                        })
                    }
                }
            })?;
            let revoked: Token = read(&revoked)?;
            print::lines([format!("token {} ({}) is revoked", revoked.prefix, print::clean(&revoked.name))])?;
        }
        TokenVerb::Ticket(call) => {
            let new = wire::NewTicket {
                groups: call.groups.clone(),
                scopes: call.scopes.iter().map(|scope| scope.trim().to_owned()).collect(),
                queues: call.queues.clone(),
                tasks: call.tasks.clone(),
                origins: call.origins.clone(),
            };
            new.to_grant().map_err(singular)?;
            let made = block_on(async {
                match Place::find(settings).await? {
                    Place::Database(_) => {
                        let problem = "is missing: a ticket is made by a server, with a token; name both with --server and --token";
                        Err(Invalid::new("server", problem).into())
                    }
                    Place::Server(server) => server.ask(Ask::post("/tickets").json(place::shown(&new)?.get())).await,
                }
            })?;
            if call.json {
                print::indented(made.get())?;
            } else {
                #[derive(Deserialize)]
                struct Made {
                    path: String,
                }
                remark("for a frame, below the address of the server; it can be opened once, within a minute:");
                print::lines([read::<Made>(&made)?.path])?;
            }
        }
    }
    Ok(())
}

fn written(call: &CreateToken) -> Result<wire::NewToken, Invalid> {
    let rate = |rate: &String| match rate.parse::<NonZeroU32>() {
        Ok(number) => Ok(number.get().into()),
        Err(_) => Err(Invalid::new("rate", format!("must be a number from 1 on, not {rate:?}"))),
    };
    Ok(wire::NewToken {
        name: call.name.clone(),
        scopes: call.scopes.iter().map(|scope| scope.trim().to_owned()).collect(),
        queues: call.queues.clone(),
        groups: call.groups.clone(),
        tasks: call.tasks.clone(),
        expires: call.expires.clone(),
        rate: call.rate.as_ref().map(rate).transpose()?,
    })
}

/// A flag is given for one of them at a time, and called so.
fn singular(invalid: Invalid) -> Invalid {
    let field = match invalid.field {
        "scopes" => "scope",
        "queues" => "queue",
        "groups" => "group",
        "tasks" => "task",
        other => other,
    };
    Invalid::new(field, invalid.problem)
}

fn row(token: &Token, now: Timestamp) -> [String; 9] {
    let limited = [("queue", &token.queues), ("group", &token.groups), ("task", &token.tasks)];
    let limited = limited.iter().filter_map(|(word, names)| Some(format!("{word} {}", names.as_ref()?.join(","))));
    let limited: Vec<_> = limited.collect();
    [
        token.prefix.clone(),
        print::brief(&token.name),
        token.state.clone(),
        token.scopes.join(","),
        if limited.is_empty() { "-".to_owned() } else { print::brief(&limited.join("; ")) },
        token.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate}/s")),
        print::shown(token.expires_at),
        token.last_used_at.map_or_else(|| "never".to_owned(), |used| format!("{} ago", print::age(now.since(used)))),
        token.id.clone(),
    ]
}

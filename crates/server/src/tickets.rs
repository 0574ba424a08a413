//! Tickets: a host's backend makes one with its token, and gives it to a page of its own, which embeds `/embed` with the ticket in the address's
//! fragment. The page there redeems it, once, for a bearer that lasts a quarter of an hour.

use turnwise::{
    access::{Secret, TokenState},
    wire,
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    limits::EMBEDDERS,
    login,
    problem::Problem,
};

pub(crate) async fn make(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let new = call.read(wire::NewTicket::read)?;
    let wanted = new.to_grant().map_err(|invalid| Problem::in_body(&invalid))?;
    check_origins(&call, &new.origins)?;
    let with_token = "a ticket is made with a token: its bearer can do no more than that, and ends with it";
    let token = call.caller.own_token().ok_or_else(|| Problem::forbidden(with_token))?;
    let given = token.grant.give(&wanted).map_err(|beyond| Problem::forbidden(beyond.to_string()))?;
    let (secret, until) = call.acting().make_ticket(token, given, new.origins.clone()).await?;
    Ok(Reply::json(&wire::CreatedTicket::new(&secret, until, &new.origins))?.created("/embed"))
}

fn check_origins(call: &Call, origins: &[String]) -> Result<(), Problem> {
    let refuse = |problem: String| Err(Problem::invalid("/origins", format!("origins: {problem}")));
    if origins.is_empty() || origins.len() > EMBEDDERS {
        return refuse(format!("name 1 to {EMBEDDERS}"));
    }
    match origins.iter().find(|origin| !call.service.may_embed(origin)) {
        Some(origin) => refuse(format!(
            "pages of {origin:?} may not embed pages of this server; it is started with --embed-origin and what may"
        )),
        None => Ok(()),
    }
}

pub(crate) async fn redeem(call: Call) -> Result<Reply, Problem> {
    login::check_page(&call.headers, call.secure)?;
    let redeem = call.read(wire::Redeem::read)?;
    call.service.door().knock(call.from)?;
    let unknown = || Problem::unauthorized("the ticket was redeemed, is over, or is none; a new one is needed");
    let ticket = Secret::parse_ticket(&redeem.ticket).ok_or_else(unknown)?;
    let Some((secret, found)) = call.turnwise().redeem_ticket(&ticket).await? else { return Err(unknown()) };
    if found.token.state(found.now) != TokenState::Active {
        return Err(Problem::unauthorized("the token that the ticket was made with has ended"));
    }
    // Whom the server let embed the page that asks. One that is not the ticket's may hold a ticket that was not meant for it: it is used up.
    let foreign = |origin: &&String| !found.origins.contains(origin);
    if redeem.origins.is_empty() || redeem.origins.iter().any(|origin| foreign(&origin)) {
        return Err(Problem::forbidden("the ticket is not for pages of this origin"));
    }
    Reply::json(&wire::Redeemed::new(&secret, &found))
}

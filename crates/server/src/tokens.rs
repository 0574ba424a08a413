//! Tokens: who may ask this server for what.

use turnwise::wire;
use turnwise_core::{
    TokenName,
    access::{Scope, Target},
};

use crate::{
    call::{Call, Reply},
    problem::Problem,
};

pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let (tokens, now) = call.turnwise().tokens().await?;
    Reply::json(&wire::Tokens::new(&tokens, now))
}

pub(crate) async fn create(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let new = call.read(wire::NewToken::read)?;
    let access = new.to_access().map_err(|invalid| Problem::in_body(&invalid))?;
    // A token that could do more than its maker would be a way around the maker's own grant.
    let may = |scope: &Scope| call.grant.scopes().iter().any(|own| own.includes(*scope));
    if let Some(scope) = access.grant().scopes().iter().find(|scope| !may(scope)) {
        return Err(Problem::forbidden(format!("a token cannot give away what it has not: the scope {scope}")));
    }
    let created = call.acting().create_token(access).await?;
    Ok(Reply::json(&wire::CreatedToken::new(&created))?.created("/api/v1/tokens"))
}

pub(crate) async fn revoke(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let name = call.named(TokenName::new)?;
    let revoked = call.acting().revoke_token(name.as_str()).await;
    let revoked = revoked.map_err(|error| match error {
        turnwise::Error::Invalid(invalid) => Problem::not_found(invalid.to_string()),
        other => other.into(),
    })?;
    let now = call.turnwise().now().await?;
    Reply::json(&wire::Token::new(&revoked, now))
}

//! Whether the process lives, and whether it can do its work.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    call::{Call, Reply},
    limits::READY_TIME,
    problem::Problem,
};

#[derive(Debug, Serialize)]
struct Alive {
    alive: bool,
    version: &'static str,
}

#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    /// Why it is not; `null`: it is.
    reason: Option<&'static str>,
    /// What an acknowledged submit survives: the database's settings about it.
    acknowledged: BTreeMap<String, String>,
}

pub(crate) async fn alive(_: Call) -> Result<Reply, Problem> {
    Reply::json(&Alive { alive: true, version: turnwise::VERSION })
}

pub(crate) async fn ready(call: Call) -> Result<Reply, Problem> {
    let turnwise = call.turnwise();
    let contact = async {
        turnwise.now().await?;
        turnwise.durability().await
    };
    let (reason, acknowledged) = if call.service.is_stopping() {
        (Some("the process is stopping"), BTreeMap::new())
    } else {
        match timeout(READY_TIME, contact).await {
            Ok(Ok(acknowledged)) => (None, acknowledged),
            _ => (Some("the database does not answer"), BTreeMap::new()),
        }
    };
    let status = if reason.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Reply::json(&Ready { ready: reason.is_none(), reason, acknowledged })?.status(status))
}

//! The first page: what needs attention, and what is going on.

use askama::Template;
use serde::Deserialize;
use turnwise::Timestamp;

use crate::{
    call::Reply,
    page::{Visit, frame::Frame, shown::Count, visit::render},
    problem::Problem,
};

/// A [`turnwise::wire::Overview`].
#[derive(Debug, Deserialize)]
struct Totals {
    now: Timestamp,
    waiting: u64,
    scheduled: u64,
    running: u64,
    stuck: u64,
    at_least: bool,
    slots: u64,
    nodes: u64,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    totals: Totals,
}

impl Totals {
    fn count(&self, number: &u64) -> Count {
        Count { number: *number, at_least: self.at_least }
    }
}

pub(crate) async fn show(visit: Visit) -> Result<Reply, Problem> {
    let totals: Totals = visit.get("getOverview", "", &[]).await?;
    let frame = Frame::of(&visit, "", "Overview").at(totals.now).json("overview");
    render(&Overview { frame, totals })
}

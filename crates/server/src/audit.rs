//! The audit log: who changed what.

use turnwise::{
    audit::{ActorName, AskAudit, AuditFilter},
    wire::AuditLines,
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    limits::{PAGE, PAGE_MOST},
    problem::Problem,
};

pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let query = &call.query;
    let filter = AuditFilter {
        actor: query.parse("actor", |text| ActorName::new(text))?,
        target: query.parse("target", |text| text.parse())?,
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let cursor = query.parse("cursor", |text| text.parse())?;
    let limit = query.count("limit", PAGE_MOST)?.unwrap_or(PAGE);
    Reply::json(&AuditLines::new(&call.turnwise().audit(AskAudit { filter, cursor, limit }).await?))
}

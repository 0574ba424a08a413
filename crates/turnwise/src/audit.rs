//! The audit log: who changed what, when, and how it was before.
//!
//! Changes of a handle that [acts for an actor](Turnwise::acting_as) are written down, each in the transaction of the change itself; those
//! of other handles are not. A server's callers and the commands of `turnwise` always act for one.
//!
//! ```
//! use turnwise::{Turnwise, audit::{Actor, AskAudit}};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnwise::Error> {
//! let turnwise = Turnwise::open("memory:").await?.acting_as(Actor::named("deploy script")?);
//! turnwise.pause_queue("mail", Some("release 7".to_owned())).await?;
//! let page = turnwise.audit(AskAudit { limit: 10, ..AskAudit::default() }).await?;
//! assert_eq!((page.lines[0].verb.as_str(), page.lines[0].target.as_str()), ("pause", "queue:mail"));
//! # Ok(()) }
//! ```

pub use turnwise_core::{
    ActorName,
    audit::{Actor, AuditId, AuditLine, AuditTarget, AuditVerb, KEEP_AUDIT, NewAuditLine},
};
pub use turnwise_store::{AskAudit, AuditCursor, AuditFilter, AuditPage};

use crate::{Error, Turnwise, id};

impl Turnwise {
    /// A handle on the same database whose changes are written to the audit log as those of this actor: decisions about jobs, settings,
    /// schedules, tokens, [prune](Turnwise::prune), and jobs that are [submitted again](Turnwise::resubmit). Other submits are not. A change that changes nothing leaves no line.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        let mut acting = self.clone();
        acting.actor = Some(actor);
        acting
    }

    /// A page of the audit log, newest first; [`AuditPage::next`] is where the next one begins.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn audit(&self, ask: AskAudit) -> Result<AuditPage, Error> {
        Ok(self.operators()?.audit(ask).await?)
    }

    /// For whom this handle acts, and the id of a new line about it; `None`: nothing is written down.
    pub(crate) fn by(&self) -> Option<(AuditId, &Actor)> {
        self.actor.as_ref().map(|actor| (AuditId(id::next().uuid()), actor))
    }
}

//! A node that is to take no more jobs, until a person lets it go on or it is started anew.

use turnwise_core::{Incarnation, Invalid, Node, NodeName};
use turnwise_store::{Fleet, Memo, MemoKind, NewMemo};

use crate::{
    Error, Turnwise,
    audit::{AuditVerb, NewAuditLine},
};

impl Turnwise {
    /// A node takes no more jobs; those in its hands go on, and it stays in the fleet. It hears of that with its next beat, which costs it
    /// nothing. The next life of the node, after a restart of its process, takes jobs again. `false`: that was so already.
    ///
    /// - [`Error::Invalid`] if no living node has this name.
    /// - [`Error::Store`] if the database does not answer. If it [is transient](crate::StoreError::is_transient) it may or may not be written.
    ///
    /// A repeat is safe.
    pub async fn drain_node(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        let (name, node) = self.living(name).await?;
        let (fleet, memos) = (self.store().nodes().await?, self.store().recall(vec![MemoKind::Drained]).await?);
        if memos.iter().any(|memo| is_of(memo, &name, node)) {
            return Ok(false);
        }
        // What is kept of lives that are over is of no use any more.
        let is_over = |memo: &&Memo| memo.name != name.as_str() && !drained(&fleet, memo);
        let mut writes: Vec<NewMemo> = memos.iter().filter(is_over).map(|memo| forgotten(&memo.name)).collect();
        let line = self.by().map(|by| Box::new(NewAuditLine::of_node(by, AuditVerb::Drain, &name, true)));
        let value = Some(node.to_string());
        writes.push(NewMemo { value, line, ..forgotten(name.as_str()) });
        self.store().remember(None, writes).await?;
        Ok(true)
    }

    /// A node that was drained takes jobs again. `false`: it was not drained.
    ///
    /// Fails as [`Turnwise::drain_node`] does; a repeat is safe.
    pub async fn resume_node(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        let (name, node) = self.living(name).await?;
        let memos = self.store().recall(vec![MemoKind::Drained]).await?;
        if !memos.iter().any(|memo| is_of(memo, &name, node)) {
            return Ok(false);
        }
        let line = self.by().map(|by| Box::new(NewAuditLine::of_node(by, AuditVerb::Resume, &name, false)));
        self.store().remember(None, vec![NewMemo { line, ..forgotten(name.as_str()) }]).await?;
        Ok(true)
    }

    async fn living(&self, name: impl AsRef<str>) -> Result<(NodeName, Incarnation), Error> {
        let name = NodeName::new(name)?;
        let fleet = self.store().nodes().await?;
        let node = fleet.nodes.iter().find(|node| node.name == name && node.alive(fleet.now));
        let none =
            || Invalid::new("node", format!("there is no living node {:?}; see `turnwise nodes`", name.as_str()));
        let incarnation = node.ok_or_else(none)?.incarnation;
        Ok((name, incarnation))
    }

    /// Notes which nodes a person has drained. Only where a node takes no jobs is there something to read.
    pub(crate) async fn note_drained(&self, fleet: &mut Fleet) -> Result<(), Error> {
        if fleet.nodes.iter().any(|node| node.alive(fleet.now) && node.slots == 0) {
            let memos = self.store().recall(vec![MemoKind::Drained]).await?;
            let is_drained = |node: &&Node| memos.iter().any(|memo| is_of(memo, &node.name, node.incarnation));
            fleet.drained = fleet.nodes.iter().filter(is_drained).map(|node| node.incarnation).collect();
        }
        Ok(())
    }
}

fn is_of(memo: &Memo, name: &NodeName, node: Incarnation) -> bool {
    memo.name == name.as_str() && memo.value == node.to_string()
}

fn drained(fleet: &Fleet, memo: &Memo) -> bool {
    fleet.nodes.iter().any(|node| is_of(memo, &node.name, node.incarnation))
}

fn forgotten(name: &str) -> NewMemo {
    NewMemo { kind: MemoKind::Drained, name: name.to_owned(), value: None, seen: None, line: None }
}

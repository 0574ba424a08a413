//! What concerns the whole installation: its nodes, its settings, its backlog.

use turnwise::{
    Node, NodeName,
    wire::{self, InstallationChange, InstallationSet, NodeSet, Pruned, WhatIf},
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    jobs::in_background,
    limits::{PRUNE_ROUNDS, PRUNED_ROWS},
    names::counted,
    problem::Problem,
    service::Turn,
};

pub(crate) async fn overview(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let overview = counted(&call).await?;
    // To tell a limited token that there are no nodes would be untrue.
    let fleet = if call.grant.is_limited() { None } else { Some(call.turnwise().nodes().await?) };
    Reply::json(&wire::Overview::new(&overview, fleet.as_ref()))
}

pub(crate) async fn nodes(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    Reply::json(&wire::Nodes::new(&call.turnwise().nodes().await?))
}

pub(crate) async fn drain_node(call: Call) -> Result<Reply, Problem> {
    let name = living_node(&call).await?;
    call.acting().drain_node(name.as_str()).await?;
    Reply::json(&NodeSet::new(&name, true))
}

pub(crate) async fn resume_node(call: Call) -> Result<Reply, Problem> {
    let name = living_node(&call).await?;
    call.acting().resume_node(name.as_str()).await?;
    Reply::json(&NodeSet::new(&name, false))
}

/// The node in the path.
async fn living_node(call: &Call) -> Result<NodeName, Problem> {
    call.check(Target::Installation)?;
    let name = call.named(NodeName::new)?;
    let fleet = call.turnwise().nodes().await?;
    let is_it = |node: &Node| node.name == name && node.alive(fleet.now);
    let found = fleet.nodes.iter().any(is_it);
    found.then_some(()).ok_or_else(|| Problem::not_found(format!("there is no living node {:?}", name.as_str())))?;
    Ok(name)
}

pub(crate) async fn installation(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    Reply::json(&InstallationSet::new(call.turnwise().settings().await?.installation))
}

pub(crate) async fn set_installation(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let change = call.read(InstallationChange::read)?;
    let set = call.acting().set_installation(|installation| change.apply(installation)).await?;
    Reply::json(&InstallationSet::new(set))
}

pub(crate) async fn simulate(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let what_if = call.read(WhatIf::read)?;
    let now = call.turnwise().now().await?;
    let compared = in_background(&call, Turn::Heavy, async move |turnwise| {
        turnwise.simulate(what_if.slots(), |settings| what_if.apply(settings, now)).await
    });
    Reply::json(&wire::Comparison::new(&compared.await?))
}

pub(crate) async fn prune(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Installation)?;
    let (deleted, more) = call.acting().prune_all(PRUNED_ROWS, PRUNE_ROUNDS).await?;
    Reply::json(&Pruned::new(deleted, more))
}

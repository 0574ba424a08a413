//! Queues, groups, tasks and keys: what is set for them, and how much there is.

use std::{collections::BTreeMap, sync::Arc};

use turnwise::{
    GroupName, KeyName, QueueName, TaskName,
    overview::{GroupOverview, Overview},
    settings::QueueSettings,
    wire::{self, GroupChange, GroupSet, LimitChange, LimitSet, PauseReason, QueueChange, QueueSet, Reset},
};
use turnwise_core::access::Target;

use crate::{
    call::{Call, Reply},
    jobs::in_background,
    limits::{COUNTED, PAGE, PAGE_MOST},
    problem::Problem,
    service::Turn,
};

/// What there is, counted over the jobs that are the caller's to see. Pages that are watched share a count.
pub(crate) async fn counted(call: &Call) -> Result<Arc<Overview>, Problem> {
    let shared = call.service.shared();
    match (call.watched, call.grant.is_limited()) {
        (true, false) => shared.counted(count(call)).await,
        (true, true) => shared.note_count(count(call).await).map(Arc::new),
        (false, _) => count(call).await.map(Arc::new),
    }
}

async fn count(call: &Call) -> Result<Overview, Problem> {
    let grant = call.grant.clone();
    let covers = move |queue: &QueueName, group: &GroupName, task: &TaskName| grant.covers(queue, group, task);
    if !call.grant.is_limited() {
        return in_background(call, Turn::Count, async |turnwise| turnwise.overview_by_dispatcher(COUNTED).await).await;
    }
    let mut overview =
        in_background(call, Turn::Count, async move |turnwise| turnwise.overview_of(COUNTED, covers).await).await?;
    // Names that only others use are not listed: a name is theirs, too.
    let limits = call.grant.limits();
    overview
        .queues
        .retain(|name, queue| !queue.jobs.is_empty() || limits.queues.as_ref().is_some_and(|own| own.contains(name)));
    overview
        .groups
        .retain(|name, group| !group.jobs.is_empty() || limits.groups.as_ref().is_some_and(|own| own.contains(name)));
    overview
        .tasks
        .retain(|name, task| !task.jobs.is_empty() || limits.tasks.as_ref().is_some_and(|own| own.contains(name)));
    overview.keys.clear();
    // Nor are they counted.
    overview.groups_in_all = overview.groups.len();
    Ok(overview)
}

/// A part of what is sorted by name, and the name that it ends with if there is more.
pub(crate) type Page<'a, N, T> = (Vec<(&'a N, &'a T)>, Option<&'a N>);

/// The page that the caller asks for.
pub(crate) fn page<'a, N, T>(
    call: &Call,
    all: &'a BTreeMap<N, T>,
    text: impl Fn(&N) -> &str,
) -> Result<Page<'a, N, T>, Problem> {
    let limit = call.query.count("limit", PAGE_MOST)?.unwrap_or(PAGE) as usize;
    let after = call.query.get("after");
    let mut rest = all.iter().filter(|(name, _)| after.is_none_or(|after| text(name) > after));
    let page: Vec<_> = rest.by_ref().take(limit).collect();
    let next = rest.next().and_then(|_| page.last().map(|(name, _)| *name));
    Ok((page, next))
}

/// The queues that one waits for, but for those that are not the caller's to see: a name is theirs, too.
fn awaited(set: &QueueSettings, sees: impl Fn(&QueueName) -> bool) -> Vec<QueueName> {
    set.after.iter().filter(|name| sees(name)).cloned().collect()
}

/// What is set for a queue that the caller has changed.
fn shown(call: &Call, name: &QueueName, set: &QueueSettings) -> Result<Reply, Problem> {
    let after = awaited(set, |name| call.grant.is_told_of(name));
    let mut view = QueueSet::new(name.as_str(), set);
    view.after = &after;
    Reply::json(&view)
}

fn none(kind: &str, name: &str) -> Problem {
    Problem::not_found(format!("{kind} {name:?} has no jobs and no settings"))
}

pub(crate) async fn queues(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let overview = counted(&call).await?;
    let (page, next) = page(&call, &overview.queues, QueueName::as_str)?;
    let after: Vec<_> =
        page.iter().map(|(_, queue)| awaited(&queue.settings, |name| is_listed(&call, &overview, name))).collect();
    let views = page.into_iter().zip(&after).map(|((name, queue), after)| {
        let mut view = wire::Queue::new(name, queue, &overview);
        view.after = after;
        view
    });
    Reply::json(&wire::Queues::new(views.collect(), &overview, next))
}

pub(crate) async fn queue(call: Call) -> Result<Reply, Problem> {
    let name = call.named(QueueName::new)?;
    call.check(Target::Queue(&name)).map_err(|_| none("queue", name.as_str()))?;
    let overview = counted(&call).await?;
    let queue = overview.queues.get(&name).ok_or_else(|| none("queue", name.as_str()))?;
    let after = awaited(&queue.settings, |name| is_listed(&call, &overview, name));
    let mut view = wire::Queue::new(&name, queue, &overview);
    view.after = &after;
    Reply::json(&view)
}

/// Whether the caller finds the queue in a list.
fn is_listed(call: &Call, overview: &Overview, name: &QueueName) -> bool {
    !call.grant.is_limited() || overview.queues.contains_key(name)
}

/// The queue in the path, which the caller may change.
fn own_queue(call: &Call) -> Result<QueueName, Problem> {
    let name = call.named(QueueName::new)?;
    call.check(Target::Queue(&name))?;
    Ok(name)
}

pub(crate) async fn set_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    let change = call.read(QueueChange::read)?;
    // A queue that the caller may not see is not there to be waited for.
    for other in change.names() {
        call.check(Target::Queue(other))
            .map_err(|_| Problem::invalid("/after", format!("after: there is no queue {other:?}")))?;
    }
    let set = call.acting().set_queue(name.as_str(), |queue| change.apply(queue)).await?;
    shown(&call, &name, &set)
}

pub(crate) async fn pause_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    let reason = call.read(PauseReason::read)?.reason;
    shown(&call, &name, &call.acting().pause_queue(name.as_str(), reason).await?)
}

pub(crate) async fn resume_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    shown(&call, &name, &call.acting().resume_queue(name.as_str()).await?)
}

pub(crate) async fn seal_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    shown(&call, &name, &call.acting().seal_queue(name.as_str()).await?)
}

pub(crate) async fn unseal_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    shown(&call, &name, &call.acting().unseal_queue(name.as_str()).await?)
}

pub(crate) async fn reset_queue(call: Call) -> Result<Reply, Problem> {
    let name = own_queue(&call)?;
    Reply::json(&Reset::new(call.acting().reset_queue(name.as_str()).await?))
}

pub(crate) async fn groups(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let overview = counted(&call).await?;
    let (page, next) = page(&call, &overview.groups, GroupName::as_str)?;
    let views = page.into_iter().map(|(name, group)| wire::Group::new(name, group, &overview));
    Reply::json(&wire::Groups::new(views.collect(), &overview, next))
}

pub(crate) async fn group(call: Call) -> Result<Reply, Problem> {
    let name = call.named(GroupName::new)?;
    call.check(Target::Group(&name)).map_err(|_| none("group", name.as_str()))?;
    let overview = counted(&call).await?;
    // Where not all groups are named, one that is not may have jobs all the same.
    let unnamed = || {
        let mut group = GroupOverview::default();
        group.at_least = true;
        overview.is_partial().then_some(group)
    };
    let group = overview.groups.get(&name).cloned().or_else(unnamed);
    let group = group.ok_or_else(|| none("group", name.as_str()))?;
    Reply::json(&wire::Group::new(&name, &group, &overview))
}

fn own_group(call: &Call) -> Result<GroupName, Problem> {
    let name = call.named(GroupName::new)?;
    call.check(Target::Group(&name))?;
    Ok(name)
}

pub(crate) async fn set_group(call: Call) -> Result<Reply, Problem> {
    let name = own_group(&call)?;
    let change = call.read(GroupChange::read)?;
    let set = call.acting().set_group(name.as_str(), |group| change.apply(group)).await?;
    Reply::json(&GroupSet::new(name.as_str(), &set))
}

pub(crate) async fn pause_group(call: Call) -> Result<Reply, Problem> {
    let name = own_group(&call)?;
    let reason = call.read(PauseReason::read)?.reason;
    Reply::json(&GroupSet::new(name.as_str(), &call.acting().pause_group(name.as_str(), reason).await?))
}

pub(crate) async fn resume_group(call: Call) -> Result<Reply, Problem> {
    let name = own_group(&call)?;
    Reply::json(&GroupSet::new(name.as_str(), &call.acting().resume_group(name.as_str()).await?))
}

pub(crate) async fn reset_group(call: Call) -> Result<Reply, Problem> {
    let name = own_group(&call)?;
    Reply::json(&Reset::new(call.acting().reset_group(name.as_str()).await?))
}

pub(crate) async fn tasks(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let overview = counted(&call).await?;
    let (page, next) = page(&call, &overview.tasks, TaskName::as_str)?;
    let views = page.into_iter().map(|(name, task)| wire::Task::new(name, task, &overview));
    Reply::json(&wire::Tasks::new(views.collect(), &overview, next))
}

pub(crate) async fn task(call: Call) -> Result<Reply, Problem> {
    let name = call.named(TaskName::new)?;
    call.check(Target::Task(&name)).map_err(|_| none("task", name.as_str()))?;
    let overview = counted(&call).await?;
    let task = overview.tasks.get(&name).ok_or_else(|| none("task", name.as_str()))?;
    Reply::json(&wire::Task::new(&name, task, &overview))
}

fn own_task(call: &Call) -> Result<TaskName, Problem> {
    let name = call.named(TaskName::new)?;
    call.check(Target::Task(&name))?;
    Ok(name)
}

pub(crate) async fn set_task(call: Call) -> Result<Reply, Problem> {
    let name = own_task(&call)?;
    let change = call.read(LimitChange::read)?;
    let set = call.acting().set_task(name.as_str(), |task| change.apply(task)).await?;
    Reply::json(&LimitSet::new(name.as_str(), set))
}

pub(crate) async fn reset_task(call: Call) -> Result<Reply, Problem> {
    let name = own_task(&call)?;
    Reply::json(&Reset::new(call.acting().reset_task(name.as_str()).await?))
}

pub(crate) async fn keys(call: Call) -> Result<Reply, Problem> {
    call.check(Target::Many)?;
    let overview = counted(&call).await?;
    let (page, next) = page(&call, &overview.keys, KeyName::as_str)?;
    let views = page.into_iter().map(|(name, key)| wire::Key::new(name, key, &overview));
    Reply::json(&wire::Keys::new(views.collect(), &overview, next))
}

pub(crate) async fn key(call: Call) -> Result<Reply, Problem> {
    let name = own_key(&call)?;
    let overview = counted(&call).await?;
    let key = overview.keys.get(&name).ok_or_else(|| none("key", name.as_str()))?;
    Reply::json(&wire::Key::new(&name, key, &overview))
}

fn own_key(call: &Call) -> Result<KeyName, Problem> {
    let name = call.named(KeyName::new)?;
    call.check(Target::Key)?;
    Ok(name)
}

pub(crate) async fn set_key(call: Call) -> Result<Reply, Problem> {
    let name = own_key(&call)?;
    let change = call.read(LimitChange::read)?;
    let set = call.acting().set_key(name.as_str(), |key| change.apply(key)).await?;
    Reply::json(&LimitSet::new(name.as_str(), set))
}

pub(crate) async fn reset_key(call: Call) -> Result<Reply, Problem> {
    let name = own_key(&call)?;
    Reply::json(&Reset::new(call.acting().reset_key(name.as_str()).await?))
}

//! Which groups, tasks and errors have rows of their own. What has none is added to the row of the others: nothing is lost.

use std::collections::BTreeMap;

use super::{BUSIEST, Counted, ERRORS, ErrorRow, FURTHEST_UNDER, LONGEST_WAITING, Of, Row, Sums, TASKS};
use crate::{
    failure::Fingerprint,
    name::{QueueName, TaskName},
};

/// What a group is chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merit {
    /// What it used of its share, and how many runs it had.
    pub busy: (u64, u64),
    /// The longest wait of one of its jobs.
    pub waited: u64,
    /// By how much it used less than it could claim.
    pub under: u64,
}

impl Merit {
    /// As far as stored sums know: of the waits they have the bucket.
    pub fn of(sums: &Sums) -> Self {
        let waits = sums.histogram(Counted::Started);
        let longest = waits.buckets.iter().rposition(|count| *count > 0).map_or(0, |at| at as u64 + 1);
        Self { busy: (sums.used, sums.ended()), waited: longest, under: sums.entitled.saturating_sub(sums.used) }
    }
}

/// The places in `merits` of those that are chosen, in ascending order: the busiest, of the others those that waited longest, of the others
/// those furthest under their share. Merits of nothing are left out.
pub fn choose(merits: &[Merit]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut left: Vec<usize> = (0..merits.len()).collect();
    let mut take = |most: usize, merit: &dyn Fn(&Merit) -> (u64, u64)| {
        let mut best: Vec<usize> = left.iter().copied().filter(|&at| merit(&merits[at]) > (0, 0)).collect();
        if best.len() > most {
            best.select_nth_unstable_by_key(most, |&at| std::cmp::Reverse((merit(&merits[at]), std::cmp::Reverse(at))));
            best.truncate(most);
        }
        best.sort_unstable();
        left.retain(|at| best.binary_search(at).is_err());
        chosen.extend(best);
    };
    take(BUSIEST, &|merit| merit.busy);
    take(LONGEST_WAITING, &|merit| (merit.waited, 0));
    take(FURTHEST_UNDER, &|merit| (merit.under, 0));
    chosen.sort_unstable();
    chosen
}

/// Merges rows, of any times, into one for each task and group, and chooses again which have rows of their own.
pub fn merge(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut queues: BTreeMap<QueueName, BTreeMap<Of, Sums>> = BTreeMap::new();
    for Row { queue, of, sums } in rows {
        queues.entry(queue).or_default().entry(of).or_default().add(&sums);
    }
    let mut merged = Vec::new();
    for (queue, of_queue) in queues {
        let (mut tasks, mut groups) = (Vec::new(), Vec::new());
        let (mut other_tasks, mut other_groups) = (Sums::default(), Sums::default());
        for (of, sums) in of_queue {
            match of {
                Of::Task(_) => tasks.push((of, sums)),
                Of::Group(_) => groups.push((of, sums)),
                Of::OtherTasks => other_tasks.add(&sums),
                Of::OtherGroups => other_groups.add(&sums),
            }
        }
        let merits: Vec<Merit> = groups.iter().map(|(_, sums)| Merit::of(sums)).collect();
        let chosen = choose(&merits);
        for (at, (_, sums)) in groups.iter().enumerate() {
            if chosen.binary_search(&at).is_err() {
                other_groups.add(sums);
            }
        }
        let groups = groups.into_iter().enumerate().filter(|(at, _)| chosen.binary_search(at).is_ok());
        let tasks = busiest_tasks(tasks, &mut other_tasks);
        let others = [(Of::OtherTasks, other_tasks), (Of::OtherGroups, other_groups)];
        let all = tasks.into_iter().chain(groups.map(|(_, group)| group)).chain(others);
        let row = |(of, sums)| Row { queue: queue.clone(), of, sums };
        merged.extend(all.filter(|(_, sums)| !sums.is_empty()).map(row));
    }
    merged
}

/// The tasks with rows of their own; the sums of the rest are added to `others`.
pub fn busiest_tasks(mut tasks: Vec<(Of, Sums)>, others: &mut Sums) -> Vec<(Of, Sums)> {
    if tasks.len() > TASKS {
        let busy = |sums: &Sums| sums.ended() + sums.count(Counted::Started);
        tasks.sort_by(|a, b| busy(&b.1).cmp(&busy(&a.1)).then_with(|| a.0.cmp(&b.0)));
        tasks.drain(TASKS..).for_each(|(_, sums)| others.add(&sums));
    }
    tasks
}

/// Merges rows of errors, of any times, and keeps the most frequent.
pub fn merge_errors(rows: impl IntoIterator<Item = ErrorRow>) -> Vec<ErrorRow> {
    let mut merged: BTreeMap<(QueueName, TaskName, Fingerprint), ErrorRow> = BTreeMap::new();
    for row in rows {
        let key = (row.queue.clone(), row.task.clone(), row.fingerprint);
        merged
            .entry(key)
            .and_modify(|known| {
                known.count = known.count.saturating_add(row.count);
                (known.first, known.last) = (known.first.min(row.first), known.last.max(row.last));
            })
            .or_insert(row);
    }
    most_frequent(merged.into_values().collect())
}

/// The errors with rows of their own, the most frequent first.
pub fn most_frequent(mut errors: Vec<ErrorRow>) -> Vec<ErrorRow> {
    errors.sort_by(|a, b| {
        b.count.cmp(&a.count).then_with(|| (&a.queue, &a.task, a.fingerprint).cmp(&(&b.queue, &b.task, b.fingerprint)))
    });
    errors.truncate(ERRORS);
    errors
}

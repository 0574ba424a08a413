//! Did every group get its share? The bound of docs/fairness.md, over the time in which all of them had jobs waiting.

use std::time::Duration;

use turnwise_core::settings::Weight;

use super::{
    ledger::{Ledger, Tenure},
    plan,
};

/// What a task is taken to cost before it has run.
const GUESS: Duration = Duration::from_millis(10);

/// `known`: since when the dispatcher knows all jobs. It may read them a page at a time, and cannot serve a group before it
/// has read of it. `news`: for so long after its end a job counts as in flight, because the dispatcher has not read of it yet.
pub(crate) fn judge(ledger: &Ledger, weights: &[Weight], known: Duration, news: Duration) -> Vec<String> {
    let queue = plan::contest_queue();
    let of = |group: usize| -> Vec<&Tenure> {
        let name = plan::contestant(group);
        ledger.tenures.iter().filter(|tenure| tenure.queue == queue && tenure.group == name).collect()
    };
    let groups: Vec<Vec<&Tenure>> = (0..weights.len()).map(of).collect();
    // As long as the group that runs out first has a job that no node has got yet.
    let last_taken = |tenures: &Vec<&Tenure>| tenures.iter().map(|tenure| tenure.from).max().unwrap_or_default();
    let over = groups.iter().map(last_taken).min().unwrap_or_default();
    // One task for all: its estimate may be the cost of any group's jobs.
    let ran = groups.iter().flatten().filter_map(|tenure| tenure.ran);
    let longest = ran.max().unwrap_or_default().max(GUESS).as_secs_f64();
    let share = |group: usize| {
        let ended = groups[group].iter().filter(|tenure| known < tenure.to && tenure.to <= over);
        let served = ended.filter_map(|tenure| tenure.ran);
        served.sum::<Duration>().as_secs_f64() / f64::from(weights[group])
    };
    let slack = |group: usize| {
        let begun = groups[group].iter().map(|tenure| tenure.from);
        let moments = begun.filter(|moment| known < *moment && *moment <= over).chain([known]);
        let flying = |moment: Duration| {
            groups[group].iter().filter(|tenure| tenure.from <= moment && moment < tenure.to + news).count()
        };
        let most = moments.map(flying).max().unwrap_or(0);
        #[allow(clippy::cast_precision_loss)] // a few jobs
        let most = most as f64;
        (1.0 + most) * longest / f64::from(weights[group])
    };
    let mut found = Vec::new();
    for i in 0..weights.len() {
        for j in 0..i {
            let apart = (share(i) - share(j)).abs();
            // Twice: the interval begins at some moment, not when the virtual time passed the groups.
            let bound = 2.0 * (slack(i) + slack(j));
            if apart > bound {
                found.push(format!(
                    "groups c{i} and c{j} had jobs waiting for {:.3} s and were served {apart:.3} s apart by weight; the bound is {bound:.3} s",
                    (over.saturating_sub(known)).as_secs_f64()
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: u64 = 20;

    /// Two groups with jobs of 100 ms on one slot, all of the first one's before the second's.
    fn one_after_the_other() -> Ledger {
        let tenure = |at: u64| Tenure {
            queue: plan::contest_queue(),
            group: plan::contestant(usize::from(at >= JOBS)),
            from: Duration::from_millis(at * 100),
            to: Duration::from_millis(at * 100 + 100),
            ran: Some(Duration::from_millis(100)),
        };
        let mut ledger = Ledger::default();
        ledger.tenures = (0..2 * JOBS).map(tenure).collect();
        ledger
    }

    #[test]
    fn a_group_that_is_served_alone_while_others_wait_is_found() {
        let found = judge(&one_after_the_other(), &[Weight::default(); 2], Duration::ZERO, Duration::ZERO);
        assert_eq!(
            found,
            [
                "groups c1 and c0 had jobs waiting for 1.900 s and were served 1.900 s apart by weight; the bound is 0.600 s"
            ]
        );
    }

    #[test]
    fn a_group_that_the_dispatcher_has_not_read_yet_does_not_wait() {
        let known = Duration::from_millis(1_500);
        assert_eq!(judge(&one_after_the_other(), &[Weight::default(); 2], known, Duration::ZERO), Vec::<String>::new());
    }
}

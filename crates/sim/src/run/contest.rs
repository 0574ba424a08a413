//! Did every group get its share? The bound of docs/fairness.md, over the time in which all of them had jobs waiting.

use std::time::Duration;

use turnwise_core::settings::Weight;

use super::{
    ledger::{Ledger, Tenure},
    plan,
};

/// What a task is taken to cost before it has run.
const GUESS: Duration = Duration::from_millis(10);

/// `news`: so long after its end a job counts as in flight, because the dispatcher has not heard of it.
pub(crate) fn judge(ledger: &Ledger, weights: &[Weight], begun: Duration, news: Duration) -> Vec<String> {
    let queue = plan::contest_queue();
    let of = |group: usize| -> Vec<&Tenure> {
        let name = plan::contestant(group);
        let its = |tenure: &&Tenure| tenure.queue == queue && tenure.group == name && tenure.from >= begun;
        ledger.tenures.iter().filter(its).collect()
    };
    let groups: Vec<Vec<&Tenure>> = (0..weights.len()).map(of).collect();
    // As long as the group that runs out first has a job that nobody has taken yet.
    let last_taken = |tenures: &Vec<&Tenure>| tenures.iter().map(|tenure| tenure.from).max().unwrap_or_default();
    let over = groups.iter().map(last_taken).min().unwrap_or_default();
    // One task for all: its estimate may be anybody's cost.
    let ran = groups.iter().flatten().filter_map(|tenure| tenure.ran);
    let longest = ran.max().unwrap_or_default().max(GUESS).as_secs_f64();
    let share = |group: usize, at: Duration| {
        let served = groups[group].iter().filter(|tenure| tenure.to <= at).filter_map(|tenure| tenure.ran);
        served.sum::<Duration>().as_secs_f64() / f64::from(weights[group])
    };
    let slack = |group: usize, at: Duration| {
        let moments = groups[group].iter().map(|tenure| tenure.from).filter(|moment| *moment <= at);
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
            let apart = (share(i, over) - share(j, over)).abs();
            // Twice: the interval begins at some moment, not when the virtual time passed the groups.
            let bound = 2.0 * (slack(i, over) + slack(j, over));
            if apart > bound {
                found.push(format!(
                    "groups c{i} and c{j} had jobs waiting for {:.3} s and were served {apart:.3} s apart by weight; the bound is {bound:.3} s",
                    (over - begun.min(over)).as_secs_f64()
                ));
            }
        }
    }
    found
}

//! What each group should have had: the slots divided evenly, at every moment, between the groups that want them.
//!
//! A scheduler of whole jobs can only come near this ideal: here work can be divided at will, and what one group cannot use (it
//! can hold no more slots than it has jobs) is divided between the others.

use std::ops::{Range, RangeInclusive};

use super::{
    FLOOD, LENGTH,
    ledger::{Times, mean},
};

/// Steps of time in the computation.
const STEPS: u32 = 4_000;

#[derive(Debug)]
pub(super) struct Entitlement {
    /// Slot-seconds of each group while all wanted something.
    contended: Vec<f64>,
    /// Time, and slot-seconds so far, of the flood and of all others together.
    pub(super) course: Vec<(f64, [f64; 2])>,
}

impl Entitlement {
    pub(super) fn compute(
        jobs: &[Times],
        groups: usize,
        slots: u32,
        end: f64,
        contended: &RangeInclusive<f64>,
    ) -> Self {
        // Jobs are as long as they really were, so that the ideal has as much to do as the slots had.
        let length = mean(jobs.iter().filter_map(|job| Some(job.ended? - job.started?)));
        let length = length.unwrap_or(LENGTH.as_secs_f64()).max(1e-6);
        let mut arrivals: Vec<(f64, usize)> = jobs.iter().filter_map(|job| Some((job.submitted?, job.group))).collect();
        arrivals.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut arrivals = arrivals.into_iter().peekable();

        let step = end / f64::from(STEPS);
        let mut wanted = vec![0.0_f64; groups];
        let mut had = Self { contended: vec![0.0; groups], course: vec![(0.0, [0.0; 2])] };
        let mut so_far = [0.0; 2];
        for number in 0..STEPS {
            let now = f64::from(number) * step;
            while let Some((_, group)) = arrivals.next_if(|(at, _)| *at <= now) {
                wanted[group] += length;
            }
            for (group, rate) in rates(&wanted, length, f64::from(slots)) {
                let served = (rate * step).min(wanted[group]);
                wanted[group] -= served;
                so_far[usize::from(group != FLOOD)] += served;
                if contended.contains(&now) {
                    had.contended[group] += served;
                }
            }
            had.course.push((now + step, so_far));
        }
        had
    }

    /// The part of some groups in all that was served while all wanted something.
    pub(super) fn share(&self, groups: Range<usize>) -> f64 {
        let all: f64 = self.contended.iter().sum();
        self.contended[groups].iter().sum::<f64>() / all.max(f64::MIN_POSITIVE)
    }
}

/// Slots for each group that wants some: the same for all, but none gets more than it can use.
fn rates(wanted: &[f64], length: f64, slots: f64) -> Vec<(usize, f64)> {
    // Less than a thousandth of a job is an error of rounding.
    let useful = |work: f64| (work / length - 1e-3).ceil();
    let mut rates: Vec<(usize, f64)> =
        wanted.iter().enumerate().map(|(group, work)| (group, useful(*work))).filter(|(_, most)| *most > 0.0).collect();
    // Groups that can use least come first: what they leave is divided between the rest.
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut left = slots;
    let mut others = rates.len();
    for (_, rate) in &mut rates {
        #[allow(clippy::cast_precision_loss)] // at most ten thousand groups
        let even = left / others as f64;
        *rate = rate.min(even);
        left -= *rate;
        others -= 1;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_divided_evenly_and_no_group_gets_more_than_it_can_use() {
        assert_eq!(rates(&[10.0, 0.0, 10.0], 1.0, 4.0), [(0, 2.0), (2, 2.0)]);
        assert_eq!(rates(&[10.0, 1.0], 1.0, 4.0), [(1, 1.0), (0, 3.0)]);
        assert_eq!(rates(&[10.0, 1.0, 1.0], 1.0, 1.5), [(1, 0.5), (2, 0.5), (0, 0.5)]);
    }

    #[test]
    fn two_groups_that_always_want_something_are_entitled_to_half_each() {
        let job = |group| Times { group, submitted: Some(0.0), started: Some(0.0), ended: Some(1.0) };
        let jobs: Vec<_> = (0..90).map(|number| job(usize::from(number >= 60))).collect();
        let half = Entitlement::compute(&jobs, 2, 2, 20.0, &(0.0..=20.0));
        assert!((half.share(0..1) - 0.5).abs() < 0.01, "{}", half.share(0..1));
        let (_, [flood, others]) = half.course[half.course.len() - 1];
        assert!((flood + others - 40.0).abs() < 0.1, "two slots for twenty seconds: {flood} {others}");
    }
}

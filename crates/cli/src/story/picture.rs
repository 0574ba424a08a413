//! What the demo's picture shows: how long the late jobs waited, and which groups had the slots.

use turnwise_chart::{Course, Fairness};

use super::{FLOOD, Played, Story, waited};

/// Points of a line.
const POINTS: usize = 200;

pub(super) fn picture(played: &Played, story: &Story) -> Fairness {
    let order = if story.fifo { "First come, first served" } else { "Groups take turns" };
    let Story { groups, slots, flood, .. } = story;
    let late: Vec<_> = played.jobs.iter().filter(|job| job.group != FLOOD).collect();
    let waits = late.iter().filter_map(|job| Some((job.submitted?, played.wait(job)?.0))).collect();
    let mean = waited(late.iter().filter_map(|job| played.wait(job)));
    let (had, entitled) = (slot_seconds(played), &played.entitlement.course);
    let course = |name: &str, which: usize| {
        let of = |course: &[(f64, [f64; 2])]| course.iter().map(|(at, had)| (*at, had[which])).collect();
        Course { name: name.to_owned(), had: of(&had), entitled: of(entitled) }
    };
    Fairness {
        title: format!("{order}: {groups} groups, {slots} slots, one floods with {flood} jobs"),
        note: format!("{mean} on average"),
        end: played.end,
        longest: story.length.as_secs_f64(),
        waits,
        contended: (*played.contended.start(), *played.contended.end()),
        loud: course("flood", 0),
        others: course("all others together", 1),
    }
}

/// Slot-seconds so far of the flood and of all others together.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // two hundred points
fn slot_seconds(played: &Played) -> Vec<(f64, [f64; 2])> {
    let end = played.end.max(f64::MIN_POSITIVE);
    let step = end / POINTS as f64;
    let mut parts = vec![[0.0; 2]; POINTS];
    for job in &played.jobs {
        let Some(started) = job.started else { continue };
        let ended = job.ended.unwrap_or(end);
        let first = ((started / step) as usize).min(POINTS - 1);
        for (number, part) in parts.iter_mut().enumerate().skip(first) {
            let begin = number as f64 * step;
            if begin >= ended {
                break;
            }
            part[usize::from(job.group != FLOOD)] += job.slot_time(&(begin..=begin + step), end);
        }
    }
    let mut so_far = [0.0; 2];
    let mut course = vec![(0.0, so_far)];
    for (number, part) in parts.iter().enumerate() {
        so_far = [so_far[0] + part[0], so_far[1] + part[1]];
        course.push(((number + 1) as f64 * step, so_far));
    }
    course
}

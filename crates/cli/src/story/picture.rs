//! The demo as an SVG: how long the late jobs waited, and which groups had the slots.

use std::fmt::Write;

use super::{FLOOD, Played, Story, span, waited};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 660.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 836.0;
/// Waits below this are drawn on the axis.
const LEAST: f64 = 1e-3;
/// More dots than this would only make the file large.
const DOTS: usize = 3_000;
/// Points of a line.
const POINTS: usize = 200;

/// Readable on a light and on a dark background; the reader's browser chooses.
const STYLE: &str = "
  .page { fill: #ffffff } .ink { fill: #1f2328 } .soft { fill: #59636e } .grid { stroke: #d1d9e0 } .hint { stroke: #59636e } .band { fill: #59636e; opacity: .08 }
  .late { stroke: #0969da } .latefill { fill: #0969da; opacity: .45 } .flood { stroke: #bc4c00 }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round } .ideal { stroke-width: 1.5; stroke-dasharray: 5 4 }
  text { font: 13px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 } .head { font-weight: 600 }
  .end { text-anchor: end } .middle { text-anchor: middle }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .soft { fill: #9198a1 } .grid { stroke: #3d444d } .hint { stroke: #9198a1 } .band { fill: #9198a1; opacity: .13 }
    .late { stroke: #4493f8 } .latefill { fill: #4493f8; opacity: .55 } .flood { stroke: #f0883e }
  }";

pub(super) struct Picture<'a> {
    pub(super) played: &'a Played,
    pub(super) story: &'a Story,
}

/// A rectangle with a scale on each side.
struct Panel {
    top: f64,
    bottom: f64,
    seconds: f64,
}

impl Panel {
    fn x(&self, at: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (at / self.seconds).clamp(0.0, 1.0)
    }

    /// `part`: 0 at the bottom, 1 at the top.
    fn y(&self, part: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * part.clamp(0.0, 1.0)
    }
}

impl Picture<'_> {
    pub(super) fn draw(&self) -> String {
        let mut svg = String::new();
        let order = if self.story.fifo { "First come, first served" } else { "Groups take turns" };
        let Story { groups, slots, flood, .. } = self.story;
        let title = format!("{order}: {groups} groups, {slots} slots, one floods with {flood} jobs");
        line(
            &mut svg,
            &format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">"
            ),
        );
        line(&mut svg, &format!("<title>{title}</title>\n<style>{STYLE}\n</style>"));
        line(&mut svg, &format!("<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>"));
        line(&mut svg, &text(24.0, 34.0, "ink title", &title));
        self.waits(&mut svg);
        self.shares(&mut svg);
        line(&mut svg, "</svg>");
        svg
    }

    fn waits(&self, svg: &mut String) {
        let panel = Panel { top: 92.0, bottom: 310.0, seconds: nice(self.played.end) };
        let greatest = 10_f64.powf(self.story.length.as_secs_f64().log10().ceil().max(1.0));
        let height = |wait: f64| panel.y((wait.max(LEAST) / LEAST).log10() / (greatest / LEAST).log10());
        line(svg, "<g id=\"waits\">");
        line(svg, &text(24.0, 66.0, "ink head", "How long the late collectives' jobs waited"));
        let late: Vec<_> = self.played.jobs.iter().filter(|job| job.group != FLOOD).collect();
        let mean = waited(late.iter().filter_map(|job| self.played.wait(job)));
        line(svg, &text(RIGHT, 66.0, "soft end", &format!("one dot a job, {mean} on average")));
        self.frame(svg, &panel);
        let mut tick = LEAST;
        while tick <= greatest * 1.01 {
            let label = if tick < 0.5 { span(tick) } else { format!("{tick:.0} s") };
            rule(svg, height(tick), &label);
            tick *= 10.0;
        }
        for job in late.iter().step_by(late.len().div_ceil(DOTS).max(1)) {
            if let (Some(at), Some((wait, _))) = (job.submitted, self.played.wait(job)) {
                line(
                    svg,
                    &format!(
                        "<circle class=\"latefill\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                        panel.x(at),
                        height(wait)
                    ),
                );
            }
        }
        line(svg, &text(RIGHT, panel.bottom + 36.0, "soft end", "time of the submit"));
        line(svg, "</g>");
    }

    fn shares(&self, svg: &mut String) {
        let panel = Panel { top: 410.0, bottom: 600.0, seconds: nice(self.played.end) };
        let real = self.slot_seconds();
        let course = &self.played.entitlement.course;
        let most = real.iter().chain(course).flat_map(|(_, had)| had).copied().fold(0.0, f64::max);
        let (step, greatest) = ladder(most);
        line(svg, "<g id=\"shares\">");
        line(svg, &text(24.0, 384.0, "ink head", "Who had the slots: slot-seconds so far"));
        let mut x = RIGHT - 440.0;
        for (class, label, room) in
            [("flood", "flood", 60.0), ("late", "all others together", 150.0), ("hint ideal", "entitled to", 0.0)]
        {
            line(svg, &format!("<line class=\"line {class}\" x1=\"{x}\" x2=\"{}\" y1=\"380\" y2=\"380\"/>", x + 24.0));
            line(svg, &text(x + 30.0, 384.0, "soft", label));
            x += 30.0 + room;
        }
        self.frame(svg, &panel);
        let mut tick = 0.0;
        while tick <= greatest * 1.01 {
            rule(svg, panel.y(tick / greatest), &ticked(tick, step));
            tick += step;
        }
        let thin = course.len().div_ceil(POINTS).max(1);
        let ideal: Vec<_> = course.iter().step_by(thin).chain(course.last()).copied().collect();
        for (which, class) in ["flood", "late"].into_iter().enumerate() {
            for (points, kind) in [(&ideal, " ideal"), (&real, "")] {
                let points: Vec<_> = points
                    .iter()
                    .map(|(at, had)| format!("{:.1},{:.1}", panel.x(*at), panel.y(had[which] / greatest)))
                    .collect();
                line(svg, &format!("<polyline class=\"line {class}{kind}\" points=\"{}\"/>", points.join(" ")));
            }
        }
        line(svg, &text(RIGHT, panel.bottom + 36.0, "soft end", "time"));
        line(svg, "</g>");
    }

    /// Slot-seconds so far of the flood and of all others together.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // two hundred points
    fn slot_seconds(&self) -> Vec<(f64, [f64; 2])> {
        let end = self.played.end.max(f64::MIN_POSITIVE);
        let step = end / POINTS as f64;
        let mut parts = vec![[0.0; 2]; POINTS];
        for job in &self.played.jobs {
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

    /// The time axis, and the time in which the late collectives came.
    fn frame(&self, svg: &mut String, panel: &Panel) {
        let (from, to) = (panel.x(*self.played.contended.start()), panel.x(*self.played.contended.end()));
        let height = panel.bottom - panel.top;
        line(
            svg,
            &format!(
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{height}\"/>",
                panel.top,
                (to - from).max(0.0)
            ),
        );
        line(svg, &text(from + 6.0, panel.top + 15.0, "soft", "the late collectives submit"));
        let (step, _) = ladder(panel.seconds);
        let mut tick = 0.0;
        while tick <= panel.seconds * 1.001 {
            line(svg, &text(panel.x(tick), panel.bottom + 18.0, "soft middle", &format!("{} s", ticked(tick, step))));
            tick += step;
        }
    }
}

/// A horizontal line with its value.
fn rule(svg: &mut String, y: f64, label: &str) {
    line(svg, &format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"));
    line(svg, &text(LEFT - 8.0, y + 4.0, "soft end", label));
}

fn text(x: f64, y: f64, class: &str, text: &str) -> String {
    // Only our own words and numbers come here; nothing that needs escaping but this.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>")
}

fn line(svg: &mut String, line: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(svg, "{line}");
}

/// A value on an axis, with as many places as its steps have.
fn ticked(tick: f64, step: f64) -> String {
    let places = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        3
    };
    format!("{tick:.places$}")
}

/// The end of an axis: the next whole step above.
fn nice(most: f64) -> f64 {
    ladder(most).1
}

/// A step of 1, 2 or 5 times a power of ten that gives three to eight of them, and the first that is no less than `most`.
fn ladder(most: f64) -> (f64, f64) {
    let most = most.max(1e-3);
    let rough = most / 8.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    (step, (most / step * 0.999).ceil() * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_and_room_for_everything() {
        for most in [0.003, 0.9, 1.0, 1.7, 19.2, 20.0, 44.0, 3_600.0] {
            let (step, end) = ladder(most);
            let steps = end / step;
            assert!(end >= most * 0.999 && (3.0..=8.1).contains(&steps), "{most}: {steps} steps of {step}");
        }
        assert_eq!(ladder(20.0), (5.0, 20.0));
    }
}

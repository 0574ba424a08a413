//! Round steps for an axis, and values as people read them.

/// No value is greater: beyond it, sums and steps would overflow.
const GREATEST: f64 = 1e15;

/// What a value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// So many; those of several times add up.
    Count,
    /// Seconds, shown as a duration.
    Seconds,
    /// Parts of 1, shown in percent.
    Part,
}

impl Measure {
    /// The value in words.
    #[must_use]
    pub fn say(self, value: f64) -> String {
        let value = tame(value).unwrap_or(0.0);
        match self {
            Measure::Count => count(value),
            Measure::Seconds => span(value),
            Measure::Part => percent(value),
        }
    }

    /// Round steps that reach `most`.
    pub(crate) fn ladder(self, most: f64) -> Ladder {
        match self {
            // No half of a job.
            Measure::Count => {
                let Ladder { step, end } = Ladder::new(most.max(1.0), 5.0);
                if step < 1.0 { Ladder { step: 1.0, end: end.ceil() } } else { Ladder { step, end } }
            }
            Measure::Part => Ladder::new(most.max(0.01), 5.0),
            Measure::Seconds if most <= 0.0 => Ladder { step: 1.0, end: 1.0 },
            Measure::Seconds => {
                // Minutes, hours and days are no powers of ten.
                let unit = [86_400.0, 3_600.0, 60.0].into_iter().find(|unit| most >= 2.0 * unit).unwrap_or(1.0);
                let Ladder { step, end } = Ladder::new(most / unit, 5.0);
                Ladder { step: step * unit, end: end * unit }
            }
        }
    }
}

/// The value if it is one, and no greater than can be drawn.
pub(crate) fn tame(value: f64) -> Option<f64> {
    value.is_finite().then(|| value.clamp(-GREATEST, GREATEST))
}

/// An axis from 0 on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ladder {
    pub(crate) step: f64,
    pub(crate) end: f64,
}

impl Ladder {
    /// A step of 1, 2 or 5 times a power of ten that gives at most so many of them, and the first that is no less than `most`.
    pub(crate) fn new(most: f64, steps: f64) -> Self {
        let most = tame(most).unwrap_or(0.0).max(1e-3);
        let rough = most / steps;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power);
        Self { step, end: (most / step * 0.999).ceil() * step }
    }

    /// At most a few dozen.
    pub(crate) fn rungs(self) -> impl Iterator<Item = f64> {
        (0..64_u32).map(move |number| f64::from(number) * self.step).take_while(move |rung| *rung <= self.end * 1.001)
    }
}

/// Rounded: 7, 0.25, 1 234 (with a thin space, as everywhere), 56k, 7.8M.
fn count(value: f64) -> String {
    let size = value.abs();
    for (unit, from, name) in [(1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e3, 1e4, "k")] {
        if size >= from * 0.9995 {
            return format!("{}{name}", plain(value / unit));
        }
    }
    if size >= 999.5 {
        let text = format!("{value:.0}");
        let (head, tail) = text.split_at(text.len() - 3);
        return format!("{head}\u{202f}{tail}");
    }
    plain(value)
}

/// With as many places as tell something.
fn plain(value: f64) -> String {
    let size = value.abs();
    let places = if size >= 99.95 || size == 0.0 {
        0
    } else if size >= 0.995 {
        1
    } else {
        3
    };
    let text = format!("{value:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The two largest units: 340 ms, 1.2 s, 45 s, 2 min 30 s, 3 h 5 min, 4 d 2 h.
pub(crate) fn span(seconds: f64) -> String {
    let seconds = tame(seconds).unwrap_or(0.0).max(0.0);
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 0.000_999_5 {
        return format!("{} ms", plain(seconds * 1e3));
    }
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 9.95 {
        return format!("{} s", plain(seconds));
    }
    if seconds < 59.5 {
        return format!("{seconds:.0} s");
    }
    if seconds < 3_570.0 {
        both(seconds, (60.0, "min"), (1.0, "s"))
    } else if seconds < 86_370.0 {
        both(seconds, (3_600.0, "h"), (60.0, "min"))
    } else if seconds < 100.0 * 86_400.0 {
        both(seconds, (86_400.0, "d"), (3_600.0, "h"))
    } else {
        format!("{} d", count((seconds / 86_400.0).round()))
    }
}

/// In a large unit and a small one.
fn both(seconds: f64, (large, name): (f64, &str), (small, small_name): (f64, &str)) -> String {
    let (all, each) = ((seconds / small).round(), large / small);
    let (whole, rest) = ((all / each).floor(), all % each);
    if rest == 0.0 { format!("{whole:.0} {name}") } else { format!("{whole:.0} {name} {rest:.0} {small_name}") }
}

fn percent(part: f64) -> String {
    let percent = part * 100.0;
    if percent != 0.0 && percent.abs() < 9.95 {
        format!("{} %", plain((percent * 10.0).round() / 10.0))
    } else {
        format!("{percent:.0} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps_and_room_for_everything() {
        for most in [0.003, 0.9, 1.0, 1.7, 19.2, 20.0, 44.0, 3_600.0, 1e15] {
            let Ladder { step, end } = Ladder::new(most, 8.0);
            let steps = end / step;
            assert!(end >= most * 0.999 && (3.0..=8.1).contains(&steps), "{most}: {steps} steps of {step}");
        }
        assert_eq!(Ladder::new(20.0, 8.0), Ladder { step: 5.0, end: 20.0 });
        assert_eq!(Measure::Seconds.ladder(400.0), Ladder { step: 120.0, end: 480.0 });
    }

    #[test]
    fn a_value_is_told_as_people_read_it() {
        let spans = [0.0, 0.000_04, 0.34, 0.9999, 1.24, 45.2, 59.9, 150.0, 3_599.0, 11_100.0, 360_000.0, 1e9];
        assert_eq!(
            spans.map(|seconds| Measure::Seconds.say(seconds)),
            [
                "0 s",
                "0.04 ms",
                "340 ms",
                "1 s",
                "1.2 s",
                "45 s",
                "1 min",
                "2 min 30 s",
                "1 h",
                "3 h 5 min",
                "4 d 4 h",
                "11.6k d"
            ]
        );
        let counts = [0.0, 0.25, 7.0, 999.7, 1_234.0, 56_000.0, 7_800_000.0, f64::NAN];
        assert_eq!(
            counts.map(|value| Measure::Count.say(value)),
            ["0", "0.25", "7", "1\u{202f}000", "1\u{202f}234", "56k", "7.8M", "0"]
        );
        assert_eq!(
            [0.0, 0.004, 0.0831, 0.42, 1.0].map(|part| Measure::Part.say(part)),
            ["0 %", "0.4 %", "8.3 %", "42 %", "100 %"]
        );
    }
}

//! What several pages show: times, spans and numbers, as people read them.

use std::{borrow::Borrow, fmt, time::Duration};

use turnwise::{JobId, Timestamp};

/// A point in time, as people read it. Templates give what they name as a reference, so either will do.
pub(crate) trait Shown: Copy {
    /// Date and time to the second, in UTC; a script writes it in the viewer's zone.
    fn utc(self) -> String;
    /// How long ago it was, or how long until then: `3 min`.
    fn age(self, now: impl Borrow<Timestamp>) -> String;
    /// `3 min ago`, `in 3 min`.
    fn relative(self, now: impl Borrow<Timestamp>) -> String;
}

impl Shown for Timestamp {
    fn utc(self) -> String {
        let text = self.to_string();
        let second = text.split('.').next().unwrap_or(&text).trim_end_matches('Z');
        format!("{} UTC", second.replace('T', " "))
    }

    fn age(self, now: impl Borrow<Timestamp>) -> String {
        let now = *now.borrow();
        let (from, to) = if self <= now { (self, now) } else { (now, self) };
        span(to.since(from))
    }

    fn relative(self, now: impl Borrow<Timestamp>) -> String {
        let now = *now.borrow();
        // Two clocks differ by that much, and nobody reads milliseconds.
        if self.micros().abs_diff(now.micros()) < 1_000_000 {
            "now".to_owned()
        } else if self > now {
            format!("in {}", self.age(now))
        } else {
            format!("{} ago", self.age(now))
        }
    }
}

/// A span in the one unit that tells most, or in two where the first is small: `1 h 20 min`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |many: u64, unit: &str, rest: u64, of: &str| match rest {
        0 => format!("{many} {unit}"),
        rest => format!("{many} {unit} {rest} {of}"),
    };
    match () {
        () if days >= 10 => format!("{days} d"),
        () if days >= 1 => two(days, "d", hours % 24, "h"),
        () if hours >= 1 => two(hours, "h", minutes % 60, "min"),
        () if minutes >= 10 => format!("{minutes} min"),
        () if minutes >= 1 => two(minutes, "min", seconds % 60, "s"),
        () if seconds >= 10 => format!("{seconds} s"),
        () if span.as_millis() >= 1_000 => format!("{:.1} s", span.as_secs_f64()),
        () if span.as_micros() >= 1_000 => format!("{} ms", span.as_millis()),
        () if span.is_zero() => "0 s".to_owned(),
        () => "< 1 ms".to_owned(),
    }
}

/// A part of a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// Written as a time: a script shows it in the viewer's zone.
    Time(Timestamp),
    /// A job's id.
    Job(String),
}

/// Characters of a job's id.
const ID: usize = 36;

/// The id of a job that a sentence goes on with: `waits for job 01a1f571-…`.
fn id_after(before: &str, rest: &str) -> Option<String> {
    let id = rest.get(..ID).filter(|_| before.ends_with("job "))?;
    let ends = !rest[ID..].starts_with(|c: char| c.is_alphanumeric() || c == '-');
    (ends && id.parse::<JobId>().is_ok()).then(|| id.to_owned())
}

/// A sentence of the API, with the times and the jobs in it apart.
pub(crate) fn pieces(text: impl AsRef<str>) -> Vec<Piece> {
    let (mut pieces, mut done) = (Vec::new(), 0);
    let text = text.as_ref();
    let of_time = |c: char| c.is_ascii_digit() || "-T:.Z".contains(c);
    for (at, _) in text.match_indices(|c: char| c.is_ascii_digit()) {
        if at < done || text[..at].ends_with(of_time) {
            continue;
        }
        if let Some(id) = id_after(&text[..at], &text[at..]) {
            pieces.push(Piece::Text(text[done..at].to_owned()));
            done = at + id.len();
            pieces.push(Piece::Job(id));
            continue;
        }
        let word = text[at..].split(|c: char| !of_time(c)).next().unwrap_or_default().trim_end_matches(['.', ':']);
        let Some(time) = word.strip_suffix('Z').and_then(|_| word.parse().ok()) else { continue };
        pieces.push(Piece::Text(text[done..at].to_owned()));
        pieces.push(Piece::Time(time));
        done = at + word.len();
    }
    pieces.push(Piece::Text(text[done..].to_owned()));
    pieces
}

/// Whether a button that says this takes something away from a job that would have run: it looks like that.
pub(crate) fn is_destructive(label: impl AsRef<str>) -> bool {
    matches!(label.as_ref(), "Cancel" | "Mark as failed")
}

/// A number with its thousands apart, and a `+` where there may be more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) number: u64,
    pub(crate) at_least: bool,
}

impl Count {
    pub(crate) fn exact(number: u64) -> Self {
        Self { number, at_least: false }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.number.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                // Thin, and no line is broken there.
                f.write_str("\u{202f}")?;
            }
            write!(f, "{digit}")?;
        }
        f.write_str(if self.at_least { "+" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_in_the_units_that_tell_most() {
        let cases = [
            (0, "0 s"),
            (250_000, "250 ms"),
            (1_540_000, "1.5 s"),
            (42_000_000, "42 s"),
            (200_000_000, "3 min 20 s"),
            (1_500_000_000, "25 min"),
            (4_800_000_000, "1 h 20 min"),
            (90_000_000_000, "1 d 1 h"),
            (2_000_000_000_000, "23 d"),
        ];
        for (micros, text) in cases {
            assert_eq!(span(Duration::from_micros(micros)), text);
        }
    }

    #[test]
    fn times_are_told_from_now_on() {
        let now: Timestamp = "2030-01-31T08:00:00Z".parse().unwrap();
        let when = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(when("2030-01-31T07:57:00Z").relative(now), "3 min ago");
        assert_eq!(when("2030-01-31T08:03:00Z").relative(now), "in 3 min");
        assert_eq!(when("2030-01-31T08:00:00Z").relative(now), "now");
        assert_eq!(when("2030-01-31T08:00:00.9Z").relative(now), "now");
        assert_eq!(when("2030-01-31T08:00:00.123456Z").utc(), "2030-01-31 08:00:00 UTC");
    }

    #[test]
    fn the_times_of_a_sentence_are_found() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let time = |text: &str| Piece::Time(text.parse().unwrap());
        let at = "2030-01-31T08:00:00.5Z";
        assert_eq!(
            pieces(format!("queue mail is paused since {at} (release 7), é until {at}.")),
            [text("queue mail is paused since "), time(at), text(" (release 7), é until "), time(at), text("."),]
        );
        let id = "01a1f3e0-709b-7aa3-8aea-5966c26f8ad9";
        assert_eq!(
            pieces(format!("waits for job {id}, and for {id}")),
            [text("waits for job "), Piece::Job(id.to_owned()), text(&format!(", and for {id}"))]
        );
        for plain in ["", "waits for job 01a1f3e0-709b-7aa3", "in 2030-01-31", "x2030-01-31T08:00:00", "7Z"] {
            assert_eq!(pieces(plain), [text(plain)]);
        }
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(Count::exact(7).to_string(), "7");
        assert_eq!(Count { number: 1_234_567, at_least: true }.to_string(), "1\u{202f}234\u{202f}567+");
    }
}

//! The only place that writes markup. Every text is escaped here, and every number is one.

use std::fmt::Write;

use crate::{
    Width,
    text::{address, escaped},
};

/// A point, or a size.
pub(crate) type Pair = (f64, f64);

/// No coordinate is further away: a picture with a greater one would show nothing either.
const FARTHEST: f64 = 1e6;

/// No time is further from 1970, in seconds: that of a date which browsers know.
const SECONDS: f64 = 8.64e12;

/// A number as it stands in an attribute: with one place, and never "NaN".
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    // 0.0 is added so that there is no "-0".
    let rounded = (value.clamp(-FARTHEST, FARTHEST) * 10.0).round() / 10.0 + 0.0;
    format!("{rounded}")
}

/// What a screen reader is told that the element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// One picture, in the words of its title and description.
    Picture,
    /// With links: these can be gone to one by one, which they could not be within a picture.
    Links,
}

/// The words for a picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) title: &'a str,
    /// The point of it, for a reader who does not see it.
    pub(crate) point: &'a str,
}

/// An SVG that is being written.
#[derive(Debug)]
pub(crate) struct Drawing {
    svg: String,
    open: Vec<&'static str>,
}

impl Drawing {
    /// `class`: the kind of chart.
    pub(crate) fn begin(class: &str, (width, height): Pair, words: Words<'_>, role: Role) -> Self {
        let (title, point) = (escaped(words.title), escaped(words.point));
        let role = match role {
            Role::Picture => "img",
            Role::Links => "group",
        };
        let (width, height) = (number(width), number(height));
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {class}\" viewBox=\"0 0 {width} {height}\" role=\"{role}\" \
             aria-label=\"{title}. {point}\">\n<title>{title}</title>\n<desc>{point}</desc>\n"
        );
        Self { svg, open: Vec::new() }
    }

    pub(crate) fn end(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.svg.push_str("</svg>\n");
        self.svg
    }

    /// What follows, until it is closed, belongs together.
    pub(crate) fn group(&mut self, class: &str) {
        self.write(format_args!("<g class=\"{class}\">"));
        self.open.push("g");
    }

    /// The same with an id: for a picture that is the only one of its kind in its document.
    pub(crate) fn part(&mut self, id: &str) {
        self.write(format_args!("<g id=\"{id}\">"));
        self.open.push("g");
    }

    /// The same, but as a link if there is one. An address of another scheme than http is no link here.
    pub(crate) fn link(&mut self, class: &str, href: Option<&str>) {
        match href.filter(|href| leads_to_a_page(href)) {
            Some(href) => {
                let href = address(href);
                self.write(format_args!("<a class=\"{class}\" href=\"{href}\">"));
                self.open.push("a");
            }
            None => self.group(class),
        }
    }

    pub(crate) fn close(&mut self) {
        if let Some(tag) = self.open.pop() {
            self.write(format_args!("</{tag}>\n"));
        }
    }

    /// What is shown when a pointer rests on what is open.
    pub(crate) fn hint(&mut self, text: &str) {
        let text = escaped(text);
        self.write(format_args!("<title>{text}</title>"));
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): Pair, text: &str) {
        let (x, y, text) = (number(x), number(y), escaped(text));
        self.write(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// A text that says when something is, in UTC: a script finds the time in it.
    pub(crate) fn moment(&mut self, class: &str, (x, y): Pair, text: &str, at: f64) {
        let (x, y, text) = (number(x), number(y), escaped(text));
        let at = if at.is_finite() { at.clamp(-SECONDS, SECONDS).round() + 0.0 } else { 0.0 };
        self.write(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\" data-at=\"{at}\">{text}</text>\n"));
    }

    /// A text, with a value behind it in another ink.
    pub(crate) fn pair(&mut self, class: &str, (x, y): Pair, text: &str, value: &str) {
        let (x, y, text, value) = (number(x), number(y), escaped(text), escaped(value));
        self.write(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}<tspan class=\"soft\" dx=\"6\">{value}</tspan></text>\n"
        ));
    }

    pub(crate) fn line(&mut self, class: &str, from: Pair, to: Pair) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.write(format_args!("<line class=\"{class}\" x1=\"{x1}\" x2=\"{x2}\" y1=\"{y1}\" y2=\"{y2}\"/>\n"));
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): Pair, (width, height): Pair, round: f64) {
        let [x, y, width, height, round] = [x, y, width.max(0.0), height.max(0.0), round].map(number);
        self.write(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{round}\"/>\n"
        ));
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): Pair, radius: f64) {
        let [x, y, radius] = [x, y, radius].map(number);
        self.write(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>\n"));
    }

    pub(crate) fn polyline(&mut self, class: &str, points: impl IntoIterator<Item = Pair>) {
        let points: Vec<_> = points.into_iter().map(|(x, y)| format!("{},{}", number(x), number(y))).collect();
        self.write(format_args!("<polyline class=\"{class}\" points=\"{}\"/>\n", points.join(" ")));
    }

    pub(crate) fn path(&mut self, class: &str, path: &Path) {
        self.write(format_args!("<path class=\"{class}\" d=\"{}\"/>\n", path.0));
    }

    /// A shape of ours, which is drawn around its own middle.
    pub(crate) fn shape(&mut self, class: &str, (x, y): Pair, shape: &str) {
        let (x, y) = (number(x), number(y));
        self.write(format_args!("<path class=\"{class}\" transform=\"translate({x} {y})\" d=\"{shape}\"/>\n"));
    }

    fn write(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.svg.write_fmt(what);
    }
}

/// A chart's class, with the width that it is laid out for.
pub(crate) fn class(kind: &str, width: Width) -> String {
    format!("{kind} {}", width.class())
}

/// A relative address, or one of http or https.
fn leads_to_a_page(href: &str) -> bool {
    if href.starts_with(['/', '?', '#']) {
        return true;
    }
    // A browser passes over control characters: with one, a scheme would not look like one.
    if href.chars().any(char::is_control) {
        return false;
    }
    let href = href.trim();
    let Some((scheme, _)) = href.split_once(':') else { return true };
    scheme.contains(['/', '?', '#']) || ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// The way of a pen.
#[derive(Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn to(mut self, (x, y): Pair) -> Self {
        self.add(if self.0.is_empty() { 'M' } else { 'L' }, &[x, y]);
        self
    }

    pub(crate) fn curve(mut self, first: Pair, second: Pair, end: Pair) -> Self {
        self.add('C', &[first.0, first.1, second.0, second.1, end.0, end.1]);
        self
    }

    /// Along a list of points, each by a line.
    pub(crate) fn along(self, points: impl IntoIterator<Item = Pair>) -> Self {
        points.into_iter().fold(self, Self::to)
    }

    pub(crate) fn closed(mut self) -> Self {
        self.0.push('z');
        self
    }

    fn add(&mut self, step: char, numbers: &[f64]) {
        let numbers: Vec<_> = numbers.iter().copied().map(number).collect();
        self.0.push(step);
        self.0.push_str(&numbers.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_always_one() {
        let told = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.04, 1.0, 2.25, 1e300].map(number);
        assert_eq!(told, ["0", "0", "0", "0", "1", "2.3", "1000000"]);
    }

    #[test]
    fn a_link_leads_to_a_page_and_to_nothing_else() {
        for good in ["/jobs/1", "jobs?a=b:c", "#x", "https://a.example/", "./a:b"] {
            assert!(leads_to_a_page(good), "{good}");
        }
        for bad in ["javascript:alert(1)", " JAVASCRIPT:x", "java\nscript:x", "data:text/html,x", "vbscript:x"] {
            assert!(!leads_to_a_page(bad), "{bad}");
        }
    }
}

//! What a page may rely on, whatever the texts and numbers are.

mod support;

use proptest::prelude::*;
use support::Document;
use turnwise_chart::{
    Attempt, Bar, Bars, CSS, Chart, Colour, Course, Fairness, Graph, Group, Histogram, Kind, Lines, Measure, Node,
    Phase, QueueState, SERIES, Series, Shares, Spark, State, Timeline, Times, Width, standalone,
};

/// Numbers and one text, of which every chart is made.
#[derive(Debug, Clone)]
struct Values {
    text: String,
    at: Vec<f64>,
    first: Vec<Option<f64>>,
    second: Vec<Option<f64>>,
    counts: Vec<u64>,
    /// Of a graph.
    after: Vec<Vec<usize>>,
}

impl Values {
    /// Harmless ones, with this text everywhere.
    fn with(text: &str) -> Self {
        let at: Vec<_> = (0..20).map(|number| 1_795_075_200.0 + f64::from(number) * 60.0).collect();
        let values =
            |scale: f64| (0..20).map(|number| (number != 7).then(|| 0.2 + f64::from(number % 5) * scale)).collect();
        let after = vec![vec![], vec![0], vec![0, 1], vec![2, 3], vec![2]];
        Self { text: text.to_owned(), at, first: values(0.05), second: values(0.03), counts: (0..40).collect(), after }
    }

    fn number(&self, number: usize) -> f64 {
        self.at.get(number).copied().unwrap_or(f64::NAN)
    }

    fn times(&self) -> Times {
        let (from, to) = (self.number(0), self.number(self.at.len().wrapping_sub(1)));
        let mut times = Times::clock(from, to, 0.0);
        times.ticks.iter_mut().for_each(|(_, label)| *label += &self.text);
        times
    }

    fn shares(&self) -> Shares {
        let groups = [&self.first, &self.second].into_iter().cycle().take(12).map(|had| Group {
            name: self.text.clone(),
            had: had.clone(),
            entitled: self.second.clone(),
            in_all: None,
        });
        let (title, rest) = (self.text.clone(), self.first.clone());
        Shares { title, times: self.times(), at: self.at.clone(), groups: groups.collect(), rest }
    }

    fn lines(&self, measure: Measure) -> Lines {
        let colours = [Colour::State(State::Failed), Colour::Series(3), Colour::Rest];
        let series = colours.into_iter().zip([&self.first, &self.second, &self.first]).map(|(colour, values)| Series {
            name: self.text.clone(),
            colour,
            values: values.clone(),
        });
        Lines { title: self.text.clone(), times: self.times(), at: self.at.clone(), measure, series: series.collect() }
    }

    fn bars(&self) -> Bars {
        let bar = |number: usize| Bar {
            name: self.text.clone(),
            used: self.number(number),
            entitled: self.first.get(number).copied().flatten(),
            href: Some(format!("/groups/{}", self.text)),
        };
        Bars { title: self.text.clone(), measure: Measure::Part, bars: (0..self.at.len()).map(bar).collect() }
    }

    fn timeline(&self) -> Timeline {
        let attempt = |number: usize| {
            let phase = |state, at| Phase { state, from: self.number(at), to: self.number(at + 1) };
            let phases = vec![phase(State::Waiting, number), phase(State::Running, number + 1)];
            Attempt { name: self.text.clone(), phases, ended: (number.is_multiple_of(2)).then_some(State::Failed) }
        };
        let attempts = (0..self.at.len()).step_by(3).map(attempt).collect();
        Timeline { title: self.text.clone(), begins: self.text.clone(), attempts }
    }

    fn histogram(&self) -> Histogram {
        Histogram {
            title: self.text.clone(),
            what: self.text.clone(),
            bounds: (0..39).map(|number| 1e-4 * 10_f64.powf(f64::from(number) / 4.0)).collect(),
            counts: self.counts.clone(),
            p50: self.first.first().copied().flatten(),
            p95: self.second.first().copied().flatten(),
            colour: Colour::State(State::Waiting),
        }
    }

    fn graph(&self) -> Graph {
        let kinds = [Kind::Gone, Kind::Plain].into_iter().chain(State::ALL.map(Kind::State));
        let kinds = kinds.chain(QueueState::ALL.map(Kind::Queue)).cycle();
        let nodes = self.after.iter().zip(kinds).enumerate().map(|(number, (after, kind))| Node {
            name: self.text.clone(),
            note: self.text.clone(),
            hint: self.text.clone(),
            kind,
            href: (number > 0).then(|| format!("/jobs/{}", self.text)),
            here: number == 1,
            after: after.clone(),
        });
        Graph { title: self.text.clone(), heading: self.text.clone(), nodes: nodes.collect() }
    }

    fn spark(&self) -> Spark {
        let (title, values) = (self.text.clone(), self.first.clone());
        Spark { title, measure: Measure::Count, colour: Colour::Series(0), values }
    }

    fn fairness(&self) -> Fairness {
        let pairs = |values: &[Option<f64>]| {
            self.at.iter().copied().zip(values.iter().map(|value| value.unwrap_or(f64::NAN))).collect::<Vec<_>>()
        };
        let course =
            |values: &[Option<f64>]| Course { name: self.text.clone(), had: pairs(values), entitled: pairs(values) };
        Fairness {
            title: self.text.clone(),
            note: self.text.clone(),
            end: self.number(1),
            longest: self.number(2),
            waits: pairs(&self.first),
            contended: (self.number(0), self.number(3)),
            loud: course(&self.first),
            others: course(&self.second),
        }
    }

    /// Everything that is drawn of these values, in all widths, inline and as files.
    fn drawn(&self) -> Vec<(String, String)> {
        let charts: [(&str, &dyn Chart); 8] = [
            ("shares", &self.shares()),
            ("lines", &self.lines(Measure::Count)),
            ("durations", &self.lines(Measure::Seconds)),
            ("bars", &self.bars()),
            ("timeline", &self.timeline()),
            ("histogram", &self.histogram()),
            ("graph", &self.graph()),
            ("no graph", &Graph { title: String::new(), heading: String::new(), nodes: Vec::new() }),
        ];
        let mut drawn: Vec<_> = charts
            .iter()
            .flat_map(|(name, chart)| Width::ALL.map(|width| (format!("{name}, {width:?}"), chart.svg(width))))
            .collect();
        drawn.push(("spark".to_owned(), self.spark().svg()));
        drawn.push(("fairness".to_owned(), self.fairness().svg()));
        drawn.push(("fairness, a file".to_owned(), standalone(&self.fairness().svg())));
        drawn.push(("graph, a file".to_owned(), standalone(&self.graph().svg(Width::Wide))));
        drawn.push(("graph, all widths".to_owned(), self.graph().figure()));
        for (_, chart) in charts {
            let table = chart.table();
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{table:?}");
        }
        drawn
    }
}

/// More than two hundred texts that break what is careless.
fn hostile() -> Vec<String> {
    let seeds = [
        "<script>alert(1)</script>",
        "</text></svg><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onload='x",
        "\" onload=\"x",
        "]]>",
        "<![CDATA[",
        "<!--",
        "-->",
        "--!>",
        "<?xml version=\"1.0\"?>",
        "<!DOCTYPE svg [<!ENTITY a \"b\">]>",
        "&a;",
        "&lt;",
        "&amp;lt;",
        "&#60;",
        "&",
        "<",
        ">",
        "\"",
        "'",
        "`",
        "</desc>\n",
        "</title>",
        "</style>",
        "<style>*{}</style>",
        " viewBox=\"0 0 1 1\"",
        " role=\"x\"",
        "javascript:alert(1)",
        "data:text/html,<x>",
        "\0",
        "\u{1}\u{8}\u{b}\u{1f}",
        "\u{7f}\u{85}\u{9f}",
        "\r\n",
        "\n\n",
        "\t",
        "\u{2028}\u{2029}",
        "\u{202e}gpj.exe",
        "\u{2066}\u{2067}\u{2068}\u{2069}",
        "\u{200f}\u{200e}\u{61c}",
        "\u{feff}",
        "\u{fffe}\u{ffff}\u{fdd0}\u{1fffe}",
        "\u{200b}\u{200d}",
        "שלום עולם",
        "مرحبا بالعالم",
        "日本語の名前がとても長い",
        "👩‍👩‍👧‍👦🏴\u{e0067}",
        "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
        "{{7*7}}",
        "${x}",
        "%3Cscript%3E",
        "",
        " ",
        "NaN",
        "-1",
        "1e999",
        "a'b\"c<d>e&f",
    ];
    let mut texts: Vec<String> = seeds.iter().map(|&seed| seed.to_owned()).collect();
    texts.extend(seeds.iter().map(|seed| format!("acme {seed} corp")));
    texts.extend(seeds.iter().map(|seed| seed.repeat(40)));
    texts.extend(seeds.iter().map(|seed| seed.chars().rev().collect()));
    texts.extend(["x".repeat(20_000), "<".repeat(5_000), "m".repeat(299) + "<b>", "😀".repeat(5_000)]);
    texts
}

#[test]
fn no_text_changes_which_elements_a_picture_has() {
    let harmless = Values::with("acme").drawn();
    let trees: Vec<_> = harmless.iter().map(|(_, svg)| Document::read(svg)).collect();
    let texts = hostile();
    assert!(texts.len() > 200, "{}", texts.len());
    for text in texts {
        for ((name, svg), harmless) in Values::with(&text).drawn().iter().zip(&trees) {
            let same = Document::read(svg).tree() == harmless.tree();
            assert!(same, "{name}: {:?}", text.chars().take(80).collect::<String>());
        }
    }
}

#[test]
fn a_text_is_shown_as_it_is() {
    let text = "a'b\"c<d>e&f";
    let document = Document::read(&Values::with(text).graph().svg(Width::Wide));
    assert_eq!(
        document.text.matches(text).count(),
        4 + 5 * 3,
        "title, heading, twice in the words, and each node's three"
    );
    let links: Vec<_> = document.elements.iter().filter_map(|element| element.attributes.get("href")).collect();
    assert_eq!(links, vec!["/jobs/a'b\"c<d>e&f"; 4]);
}

#[test]
fn a_picture_has_classes_and_no_styles() {
    const ALLOWED: [&str; 24] = [
        "aria-label",
        "class",
        "cx",
        "cy",
        "d",
        "data-at",
        "dx",
        "height",
        "href",
        "id",
        "points",
        "r",
        "role",
        "rx",
        "transform",
        "viewBox",
        "width",
        "x",
        "x1",
        "x2",
        "xmlns",
        "y",
        "y1",
        "y2",
    ];
    for (name, svg) in Values::with("acme").drawn() {
        let document = Document::read(&svg);
        let file = name.ends_with("a file");
        for element in &document.elements {
            let known = |attribute: &String| {
                ALLOWED.contains(&attribute.as_str()) || element.name == "div" && attribute == "tabindex"
            };
            assert!(element.attributes.keys().all(known), "{name}: {element:?}");
            assert!(file || element.name != "style", "{name}");
        }
        let root = &document.elements[0];
        if root.name == "svg" {
            assert_eq!(root.attributes.contains_key("width"), file, "{name}: only a file has a size");
            let role = if document.elements.iter().any(|element| element.name == "a") { "group" } else { "img" };
            assert_eq!(root.attributes["role"], role, "{name}: links in an img could not be reached");
            let head: Vec<_> = document.elements[1..3].iter().map(|element| element.name.as_str()).collect();
            assert_eq!(head, ["title", "desc"], "{name}");
            assert!(root.attributes["aria-label"].len() > "acme. ".len(), "{name}: says its point in words");
        }
    }
}

#[test]
fn the_point_of_a_picture_is_said_in_words() {
    let values = Values::with("acme");
    let label = |svg: String| Document::read(&svg).elements[0].attributes["aria-label"].clone();
    let said = label(values.spark().svg());
    assert_eq!(said, "acme. 0.4 at last, at most 0.4.");
    let mut bars = values.bars();
    bars.bars.truncate(1);
    bars.bars[0].used = 0.41;
    bars.bars[0].entitled = Some(0.25);
    assert_eq!(label(bars.svg(Width::Wide)), "acme. The most: acme had 41 % and was entitled to 25 %.");
    let said = label(values.graph().svg(Width::Narrow));
    assert_eq!(said, "acme. 5 in all, 4 of them after others. This one: acme, acme.");
    let phase = |state, from, to| Phase { state, from, to };
    let phases = vec![phase(State::Waiting, 0.0, 11_100.0), phase(State::Running, 11_100.0, 11_100.02)];
    let attempts = vec![Attempt { name: "attempt 1".to_owned(), phases, ended: Some(State::Success) }];
    let timeline = Timeline { title: "job".to_owned(), begins: "08:00".to_owned(), attempts };
    let svg = timeline.svg(Width::Wide);
    assert_eq!(label(svg.clone()), "job. One attempt: waiting for 3 h 5 min, running for 20 ms; attempt 1: success.");
    assert!(svg.contains(">20 ms<") && svg.contains("drawn wider than it was"), "{svg}");
}

#[test]
fn a_gap_is_a_gap() {
    let document = Document::read(&Values::with("acme").lines(Measure::Count).svg(Width::Wide));
    let lines = document.elements.iter().filter(|element| element.name == "polyline").count();
    assert_eq!(lines, 6, "three series, each in two pieces");
}

#[test]
fn a_queue_in_a_graph_has_the_shape_and_the_colour_of_what_it_does() {
    let queue = |state: QueueState, after: &[usize]| Node {
        name: format!("{} queue", state.name()),
        note: state.name().to_owned(),
        hint: String::new(),
        kind: Kind::Queue(state),
        href: Some(format!("/queues/{}", state.name())),
        here: false,
        after: after.to_vec(),
    };
    let nodes = vec![queue(QueueState::Active, &[]), queue(QueueState::Paused, &[0]), queue(QueueState::Waiting, &[1])];
    let graph = Graph { title: "Which queues wait for which".to_owned(), heading: String::new(), nodes };
    for width in Width::ALL {
        let svg = graph.svg(width);
        for state in ["state-success", "state-stuck", "state-waiting"] {
            assert_eq!(svg.matches(&format!("shape {state}")).count(), 1, "{state}: {svg}");
        }
        let shape = |mark: &str| mark.split(" d=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        assert!(svg.contains(&shape(&State::Success.mark())), "an active queue has a tick");
        assert!(!svg.contains(&shape(&State::Stuck.mark())), "a paused queue is not drawn as a stuck job");
    }
    assert_eq!(graph.table().rows[2], ["waiting queue", "waiting", "paused queue"]);
    for state in QueueState::ALL {
        assert_eq!(QueueState::from_name(state.name()), Some(state));
    }
}

#[test]
fn a_link_to_a_script_is_no_link() {
    let mut graph = Values::with("acme").graph();
    graph.nodes[1].href = Some("javascript:alert(1)".to_owned());
    let links = Document::read(&graph.svg(Width::Wide));
    assert_eq!(links.elements.iter().filter(|element| element.name == "a").count(), 3);
}

#[test]
fn very_much_is_drawn_in_bounds() {
    let mut values = Values::with("acme");
    values.at = (0..30_000).map(f64::from).collect();
    values.first = (0..30_000).map(|number| Some(f64::from(number % 977))).collect();
    values.counts = vec![u64::MAX; 1_000];
    values.after = (0..2_000).map(|number| (0..number.min(300)).collect()).collect();
    for (name, svg) in values.drawn() {
        let limit = if name.starts_with("shares") { 64 << 20 } else { 4 << 20 };
        assert!(svg.len() < limit, "{name}: {}", svg.len());
        assert_is_drawn(&name, &svg);
    }
}

/// Well formed, and every number is one.
fn assert_is_drawn(name: &str, svg: &str) {
    let document = Document::read(svg);
    for element in &document.elements {
        for (attribute, value) in &element.attributes {
            assert!(!["NaN", "inf"].iter().any(|bad| value.contains(bad)), "{name}: {attribute}={value:?}");
            if ["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "r"].contains(&attribute.as_str()) {
                assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{name}: {attribute}={value:?}");
            }
        }
    }
    assert!(!document.text.contains("NaN") && !document.text.contains("inf"), "{name}: {}", document.text);
}

fn number() -> impl Strategy<Value = f64> {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        0.0,
        -0.0,
        1.0,
        1e15,
        5e-324,
    ];
    prop_oneof![3 => prop::sample::select(odd.to_vec()), 2 => any::<f64>(), 5 => -1.0..100.0]
}

fn series() -> impl Strategy<Value = Vec<Option<f64>>> {
    prop::collection::vec(prop::option::weighted(0.8, number()), 0..12)
}

prop_compose! {
    fn values()(
        at in prop::collection::vec(number(), 0..12),
        first in series(),
        second in series(),
        counts in prop::collection::vec(prop_oneof![Just(0), 0..9_u64, any::<u64>()], 0..45),
        after in prop::collection::vec(prop::collection::vec(0..12_usize, 0..4), 0..10),
    ) -> Values {
        Values { text: "acme".to_owned(), at, first, second, counts, after }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_number_keeps_a_picture_from_being_drawn(values in values()) {
        for (name, svg) in values.drawn() {
            // The style sheet of a file holds words of its own.
            if !name.ends_with("a file") {
                assert_is_drawn(&name, &svg);
            }
        }
    }

    #[test]
    fn no_bounds_of_a_histogram_keep_it_from_being_drawn(
        bounds in prop::collection::vec(number(), 0..9), counts in prop::collection::vec(any::<u64>(), 0..9), at in number(),
    ) {
        let histogram = Histogram { bounds, counts, p50: Some(at), p95: Some(at), ..Values::with("acme").histogram() };
        Width::ALL.iter().for_each(|&width| assert_is_drawn("histogram", &histogram.svg(width)));
        histogram.table();
    }
}

/// A colour of the style sheet, for light and dark.
fn colours(name: &str) -> [[f64; 3]; 2] {
    let (_, rest) = CSS.split_once(&format!("  --{name}: light-dark(")).unwrap_or_else(|| panic!("no --{name}"));
    let (pair, _) = rest.split_once(");").expect("an end of the pair");
    let (light, dark) = pair.split_once(", ").expect("two colours");
    [light, dark]
        .map(|hex| [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("a digit")) / 255.0))
}

/// By WCAG 2.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let linear = |part: f64| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    let luminance =
        |[red, green, blue]: [f64; 3]| 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
    one.max(other) / one.min(other)
}

#[test]
fn every_colour_is_seen_in_light_and_in_dark() {
    let grounds = ["page", "panel"].map(colours);
    let least = |name: &str| {
        let colours = colours(name);
        let all = grounds.iter().flat_map(|ground| [0, 1].map(|theme| contrast(colours[theme], ground[theme])));
        all.fold(f64::INFINITY, f64::min)
    };
    for state in State::ALL {
        let contrast = least(state.class());
        assert!(contrast >= 4.5, "{} as a text: {contrast:.2}", state.name());
        assert!(CSS.contains(&format!("\n.{} {{", state.class())));
    }
    for name in ["ink", "soft"] {
        assert!(least(name) >= 4.5, "{name}: {:.2}", least(name));
    }
    for colour in (0..SERIES).map(Colour::Series).chain([Colour::Rest]) {
        let contrast = least(colour.class());
        assert!(contrast >= 2.95, "{} as a line: {contrast:.2}", colour.class());
        assert!(CSS.contains(&format!("\n.{} {{", colour.class())));
    }
}

#[test]
fn the_style_sheet_can_stand_in_a_file_and_asks_for_nothing() {
    for bad in ["<", "&", "@import", "url(", "]]"] {
        assert!(!CSS.contains(bad), "{bad}");
    }
    let file = standalone(&Values::with("</desc>\n viewBox=\"0 0 1 1\"").spark().svg());
    assert!(file.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart spark\" viewBox=\"0 0 96 24\" width=\"96\" height=\"24\""));
    assert_eq!(file.matches("<style>").count(), 1);
    assert_eq!(standalone("no picture"), "no picture");
}

#[test]
fn the_labels_of_a_time_axis_say_that_they_are_in_utc_and_when_they_are() {
    let lines = Values::with("").lines(Measure::Count).svg(Width::Wide);
    let document = Document::read(&lines);
    let moments: Vec<_> = document.elements.iter().filter_map(|element| element.attributes.get("data-at")).collect();
    assert_eq!(moments[..2], ["1795075200", "1795075500"], "{lines}");
    assert!(lines.contains(">UTC</text>"), "{lines}");
    // What is counted from the beginning of a job is the same in every zone.
    let timeline = Values::with("").timeline().svg(Width::Wide);
    assert!(!timeline.contains("data-at") && !timeline.contains(">UTC<"), "{timeline}");
}

#[test]
fn a_legend_says_what_its_numbers_are() {
    let legend = |measure, values: [Option<f64>; 3]| {
        let series = vec![Series { name: "failed".to_owned(), colour: Colour::Rest, values: values.into() }];
        let Values { at, .. } = Values::with("");
        let times = Times::clock(at[0], at[2], 0.0);
        Lines { title: "t".to_owned(), times, at: at[..3].into(), measure, series }.svg(Width::Wide)
    };
    assert!(legend(Measure::Count, [Some(9.0), Some(4.0), Some(0.0)]).contains(">13 in all<"));
    assert!(legend(Measure::Seconds, [Some(9.0), Some(4.0), None]).contains(">4 s at last<"));
    let nothing = legend(Measure::Seconds, [None; 3]);
    assert!(nothing.contains(">–<") && nothing.contains(">1 s<") && !nothing.contains(" ms"), "{nothing}");
    let few = legend(Measure::Count, [Some(0.0), Some(1.0), Some(0.0)]);
    assert!(!few.contains(">0.2<"), "there is no fifth of a job: {few}");
}

#[test]
fn a_share_of_the_whole_time_is_told_as_it_is_given() {
    let at = Values::with("").at[..2].to_vec();
    let group = |name: &str, had: [f64; 2], in_all| Group {
        name: name.to_owned(),
        had: had.map(Some).into(),
        entitled: vec![Some(0.5); 2],
        in_all: Some((in_all, 0.5)),
    };
    // A busy minute and one in which little was done.
    let groups = vec![group("flood", [0.96, 0.4], 0.92), group("acme", [0.03, 0.3], 0.06)];
    let times = Times::clock(at[0], at[1], 0.0);
    let svg = Shares { title: "t".to_owned(), times, at, groups, rest: vec![Some(0.01), Some(0.3)] }.svg(Width::Wide);
    for told in [">92 %<", ">6 %<", ">2 %<"] {
        assert!(svg.contains(told), "{told}: {svg}");
    }
}

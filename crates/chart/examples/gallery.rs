//! Writes a page with every chart, light and dark: `cargo run -p turnwise-chart --example gallery -- FOLDER`, then open
//! `FOLDER/gallery.html`. With `dark` behind the folder the page is dark whatever the system prefers.

use std::{env, fs, io, path::PathBuf};

use turnwise_chart::{
    Attempt, Bar, Bars, CSS, Chart, Colour, Course, Fairness, Graph, Group, Histogram, Kind, Lines, Measure, Node,
    Phase, QueueState, Series, Shares, Spark, State, Table, Timeline, Times, standalone,
};

/// 19 November 2026, 08:00 UTC.
const MORNING: f64 = 1_795_075_200.0;
const POINTS: u32 = 72;

fn main() -> io::Result<()> {
    let mut args = env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let theme = if args.next().as_deref() == Some("dark") { " data-theme=\"dark\"" } else { "" };
    fs::create_dir_all(&folder)?;
    // The page has the rules of the server's: what a picture needs beyond them would be missing here, too.
    let own = "body { background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem }
        figure { margin: 0 0 2rem; padding: 1rem; border: 1px solid var(--grid); border-radius: 8px }
        figcaption { font-weight: 600; margin-bottom: .5rem } table { border-collapse: collapse } td, th { padding: .1rem .8rem; text-align: left }
        .two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem }";
    fs::write(folder.join("gallery.css"), format!("{CSS}{own}"))?;
    let policy = "default-src 'none'; style-src 'self' file:";
    let mut page = format!(
        "<!doctype html><html lang=\"en\"{theme}><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\"><title>Charts</title>\
         <link rel=\"stylesheet\" href=\"gallery.css\"><h1>Charts</h1><p>"
    );
    for state in State::ALL {
        page += &format!("<span class=\"{}\">{} {}</span> &nbsp; ", state.class(), state.mark(), state.name());
    }
    page += &format!("</p><p>In a line of text: {} failures</p>", spark().svg());
    page += &figure("Share of worker time", &shares());
    page += "<div class=\"two\">";
    page += &figure("Jobs over time", &lines());
    page += &figure("Waiting", &waiting());
    page += &figure("Used and entitled, last hour", &bars());
    page += &figure("How long jobs waited", &histogram());
    page += "</div>";
    page += &figure("Attempts", &timeline());
    page += &figure("Attempts, to scale", &to_scale());
    page += &figure("Who waits for whom", &graph());
    page += &figure("Queues", &queues());
    page += &format!("<figure>{}</figure>", fairness().svg());
    fs::write(folder.join("gallery.html"), page)?;
    fs::write(folder.join("fairness.svg"), standalone(&fairness().svg()))?;
    fs::write(folder.join("graph.svg"), standalone(&graph().svg(turnwise_chart::Width::Wide)))
}

fn figure(caption: &str, chart: &impl Chart) -> String {
    let table = html(&chart.table());
    format!(
        "<figure><figcaption>{caption}</figcaption>{}<details><summary>As a table</summary>{table}</details></figure>",
        chart.figure()
    )
}

fn html(table: &Table) -> String {
    let escaped = |text: &String| text.replace('&', "&amp;").replace('<', "&lt;");
    let row = |cells: &Vec<String>, tag: &str| {
        let cells: Vec<_> = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{}</tr>", cells.concat())
    };
    let rows: Vec<_> = table.rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>{}{}</table>", row(&table.head, "th"), rows.concat())
}

fn at() -> Vec<f64> {
    (0..POINTS).map(|number| MORNING + f64::from(number) * 300.0).collect()
}

fn times() -> Times {
    Times::clock(MORNING, MORNING + f64::from(POINTS) * 300.0, 0.0)
}

/// A curve that looks like life, the same at every run.
fn curve(seed: u32) -> impl Fn(u32) -> f64 {
    move |number| {
        let (at, seed) = (f64::from(number) / 9.0, f64::from(seed));
        1.0 + 0.5 * (at + seed * 1.7).sin() + 0.3 * (at * 2.3 + seed * 2.9).sin() + 0.15 * (at * 7.1 + seed).sin()
    }
}

fn shares() -> Shares {
    let names = ["acme", "bakery", "clinic", "dentist", "embassy", "florist"];
    let weight = |which: u32, number: u32| {
        curve(which)(number).max(0.05) * if which == 0 && (20..45).contains(&number) { 5.0 } else { 1.0 }
    };
    let all = |number: u32| (0..6).map(|which| weight(which, number)).sum::<f64>() + 1.2;
    let had = |which: u32| {
        let share = |number| (!(50..54).contains(&number)).then(|| weight(which, number) / all(number) * 0.96);
        (0..POINTS).map(share).collect()
    };
    let groups = (0..6).zip(names).map(|(which, name)| Group {
        name: name.to_owned(),
        had: had(which),
        entitled: (0..POINTS).map(|_| (which < 2).then_some(0.25)).collect(),
        in_all: None,
    });
    let rest = (0..POINTS).map(|number| (!(50..54).contains(&number)).then(|| 1.2 / all(number) * 0.96)).collect();
    Shares { title: "Share of worker time".to_owned(), times: times(), at: at(), groups: groups.collect(), rest }
}

fn lines() -> Lines {
    let series = |name: &str, state, seed, scale: f64| Series {
        name: name.to_owned(),
        colour: Colour::State(state),
        values: (0..POINTS).map(|number| (!(30..36).contains(&number)).then(|| curve(seed)(number) * scale)).collect(),
    };
    Lines {
        title: "Jobs per minute".to_owned(),
        times: times(),
        at: at(),
        measure: Measure::Count,
        series: vec![
            series("succeeded", State::Success, 1, 900.0),
            series("failed", State::Failed, 5, 60.0),
            series("stuck", State::Stuck, 3, 200.0),
        ],
    }
}

fn waiting() -> Lines {
    let values = (0..POINTS).map(|number| Some((curve(2)(number) * 140.0).max(0.0))).collect();
    let series = vec![Series { name: "p95 wait".to_owned(), colour: Colour::Series(0), values }];
    Lines { title: "How long jobs waited".to_owned(), times: times(), at: at(), measure: Measure::Seconds, series }
}

fn bars() -> Bars {
    let bar = |name: &str, used, entitled| Bar {
        name: name.to_owned(),
        used,
        entitled,
        href: Some(format!("?group={name}")),
    };
    let bars = vec![
        bar("acme", 0.41, Some(0.25)),
        bar("bakery", 0.22, Some(0.25)),
        bar("a-group-with-a-name-that-is-far-too-long", 0.17, Some(0.25)),
        bar("dentist", 0.06, Some(0.125)),
        bar("embassy", 0.004, None),
    ];
    Bars { title: "Worker time, used and entitled".to_owned(), measure: Measure::Part, bars }
}

fn histogram() -> Histogram {
    let bounds: Vec<f64> = (0..39).map(|number| 1e-4 * 10_f64.powf(f64::from(number) / 4.0)).collect();
    let counts = (0..40_i32).map(|number| {
        let bell = |middle: f64, high: f64| high * (-((f64::from(number) - middle) / 3.5).powi(2)).exp();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a few hundred
        let count = (bell(15.0, 480.0) + bell(24.0, 120.0)) as u64;
        count
    });
    Histogram {
        title: "How long jobs waited".to_owned(),
        what: "jobs".to_owned(),
        bounds,
        counts: counts.collect(),
        p50: Some(0.62),
        p95: Some(118.0),
        colour: Colour::State(State::Waiting),
    }
}

fn attempt(name: &str, phases: &[(State, f64)], from: f64, ended: Option<State>) -> (Attempt, f64) {
    let mut at = from;
    let phases = phases.iter().map(|&(state, length)| {
        at += length;
        Phase { state, from: at - length, to: at }
    });
    let phases = phases.collect();
    (Attempt { name: name.to_owned(), phases, ended }, at)
}

fn timeline() -> Timeline {
    let (first, at) = attempt(
        "attempt 1",
        &[(State::Waiting, 11_520.0), (State::Scheduled, 0.4), (State::Running, 0.021)],
        0.0,
        Some(State::Failed),
    );
    let (second, at) = attempt(
        "attempt 2",
        &[(State::Stuck, 1_800.0), (State::Scheduled, 0.2), (State::Running, 64.0)],
        at,
        Some(State::Failed),
    );
    let (third, _) = attempt("attempt 3", &[(State::Stuck, 7_200.0), (State::Running, 2_400.0)], at, None);
    Timeline {
        title: "The attempts of a job".to_owned(),
        begins: "08:00:00".to_owned(),
        attempts: vec![first, second, third],
    }
}

fn to_scale() -> Timeline {
    let (first, at) = attempt("attempt 1", &[(State::Waiting, 30.0), (State::Running, 20.0)], 0.0, Some(State::Failed));
    let (second, _) = attempt("attempt 2", &[(State::Stuck, 35.0), (State::Running, 41.0)], at, Some(State::Success));
    Timeline { title: "The attempts of a job".to_owned(), begins: "08:00:00".to_owned(), attempts: vec![first, second] }
}

fn node(name: &str, note: &str, kind: Kind, after: &[usize]) -> Node {
    Node {
        name: name.to_owned(),
        note: note.to_owned(),
        hint: format!("{name} {note}"),
        kind,
        href: Some("#".to_owned()),
        here: name == "merge",
        after: after.to_vec(),
    }
}

fn graph() -> Graph {
    let job = |name, state: State, after| node(name, state.name(), Kind::State(state), after);
    Graph {
        title: "Jobs that wait for one another".to_owned(),
        heading: "8 jobs".to_owned(),
        nodes: vec![
            job("fetch", State::Success, &[]),
            job("scan", State::Cancelled, &[]),
            job("extract-text", State::Success, &[0]),
            job("thumbnails", State::Failed, &[0]),
            job("ocr", State::Running, &[0, 1]),
            job("classify", State::Stuck, &[2]),
            job("merge", State::Waiting, &[2, 3, 4, 5, 1]),
            node("kept no longer", "gone", Kind::Gone, &[]),
        ],
    }
}

fn queues() -> Graph {
    Graph {
        title: "Queues that wait for queues".to_owned(),
        heading: "3 queues".to_owned(),
        nodes: vec![
            node("import", "active, 12 unfinished", Kind::Queue(QueueState::Active), &[]),
            node("index", "paused since 09:12", Kind::Queue(QueueState::Paused), &[0]),
            node("mail", "open", Kind::Plain, &[0]),
        ],
    }
}

fn spark() -> Spark {
    let values = (0..40).map(|number| Some((curve(4)(number * 2) * 3.0).floor())).collect();
    Spark { title: "Failures".to_owned(), measure: Measure::Count, colour: Colour::State(State::Failed), values }
}

fn fairness() -> Fairness {
    let waits = (0..300).map(|number| (2.0 + f64::from(number) / 38.0, 0.02 + 0.03 * curve(1)(number).abs())).collect();
    let course = |name: &str, rate: f64| {
        let so_far = |bend: f64| (0..100).map(|n| (f64::from(n) / 6.0, f64::from(n) * rate * bend)).collect();
        Course { name: name.to_owned(), had: so_far(0.97), entitled: so_far(1.0) }
    };
    Fairness {
        title: "Groups take turns: 100 groups, 4 slots, one floods with 2200 jobs".to_owned(),
        note: "44 ms on average".to_owned(),
        end: 17.0,
        longest: 20.0,
        waits,
        contended: (2.0, 10.0),
        loud: course("flood", 0.42),
        others: course("all others together", 0.21),
    }
}

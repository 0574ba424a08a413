//! `turnwise demo` as a reader of the README runs it, only shorter.

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
};

use support::{Place, Process};

/// What a run of the demo leaves behind.
struct Played {
    printed: String,
    svg: String,
}

fn demo(flags: &[&str]) -> Played {
    let place = Place::new();
    let demo = ["demo", "--groups", "10", "--slots", "2", "--svg", "demo.svg"];
    let printed = place.told(&[&demo[..], flags].concat());
    Played { printed, svg: fs::read_to_string(place.path().join("demo.svg")).unwrap() }
}

impl Played {
    /// The mean wait of the late collectives' jobs, in seconds.
    fn late_wait(&self) -> f64 {
        let (_, rest) = self.printed.split_once("jobs waited ").unwrap_or_else(|| panic!("{}", self.printed));
        let mut words = rest.trim_start_matches("> ").split_whitespace();
        let number: f64 = words.next().unwrap().parse().unwrap();
        match words.next().unwrap() {
            "ms" => number / 1e3,
            "s" => number,
            unit => panic!("{unit}: {}", self.printed),
        }
    }

    /// The cells of a row of the table, by the group's name.
    fn row(&self, group: &str) -> Vec<&str> {
        let table = self.printed.lines().skip_while(|line| !line.starts_with("GROUP"));
        let row = table.skip(1).find(|line| line.starts_with(group));
        let row = row.unwrap_or_else(|| panic!("no row {group}: {}", self.printed));
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }
}

/// Every tag that opens also closes, in the right order, and nothing is left outside of them.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(begin) = rest.find('<') {
        let outside = &rest[..begin];
        assert!(!open.is_empty() || outside.trim().is_empty(), "outside of everything: {outside}");
        let stray = outside.match_indices('&').any(|(at, _)| !outside[at..].contains(';'));
        assert!(!stray && !outside.contains('>'), "not escaped: {outside}");
        let length = rest[begin..].find('>').unwrap_or_else(|| panic!("an open tag: {}", &rest[begin..]));
        let tag = &rest[begin + 1..begin + length];
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
        rest = &rest[begin + length + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "still open: {open:?}, then {rest:?}");
}

#[test]
fn the_demo_ends_with_a_table_and_a_picture() {
    let run = demo(&["--seconds", "2"]);
    let header = run.printed.lines().find(|line| line.starts_with("GROUP")).expect("a table");
    for column in ["JOBS", "FIRST WAIT", "MEAN WAIT", "SHARE", "ENTITLED"] {
        assert!(header.contains(column), "{header}");
    }
    for group in ["flood", "acme", "florist", "3 others"] {
        let row = run.row(group);
        assert_eq!(row.len(), 6, "{row:?}");
        assert!(row[4].ends_with('%') && row[5].ends_with('%'), "{row:?}");
    }
    assert_well_formed(&run.svg);
    assert!(run.svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    for panel in ["<g id=\"waits\">", "<g id=\"shares\">"] {
        assert_eq!(run.svg.matches(panel).count(), 1, "{panel}");
    }
    let dots = run.svg.matches("<circle").count();
    assert!(dots >= 9, "one for each job of a late collective: {dots}");
    assert_eq!(run.svg.matches("<polyline").count(), 4, "two who have the slots, as it was and as it should be");
    assert!(!run.svg.contains("NaN") && !run.svg.contains("inf"), "every number is one");
}

#[test]
fn the_demo_has_a_page_while_it_runs() {
    let place = Place::new();
    let flags = ["demo", "--groups", "10", "--slots", "2", "--minutes", "5"];
    let mut demo = place.command(&flags).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let _demo = Process::new(demo);
    let said = lines.map_while(Result::ok).find(|line| line.contains("http://")).expect("it says where its page is");
    let address = said.rsplit_once("http://").unwrap().1.trim();
    let mut page = TcpStream::connect(address).unwrap();
    write!(page, "GET /jobs HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    page.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(">flood</a>"), "{answer}");
}

#[test]
fn a_demo_that_is_interrupted_leaves_an_earlier_picture_as_it_was() {
    let place = Place::new();
    let picture = place.path().join("demo.svg");
    fs::write(&picture, "an earlier picture").unwrap();
    let flags = ["demo", "--groups", "10", "--slots", "2", "--minutes", "5", "--svg", "demo.svg"];
    let mut demo = place.command(&flags).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut demo = Process::new(demo);
    assert!(lines.next().is_some(), "it has begun");
    demo.signal("INT");
    assert_eq!(demo.wait().code(), Some(130));
    assert_eq!(fs::read_to_string(&picture).unwrap(), "an earlier picture");
}

#[test]
fn a_flood_delays_the_late_collectives_only_where_the_first_to_come_is_the_first_served() {
    // One after the other: they share the machine's time otherwise.
    let (fair, fifo) = (demo(&["--seconds", "3"]), demo(&["--seconds", "3", "--fifo"]));
    let (in_turn, in_line) = (fair.late_wait(), fifo.late_wait());
    assert!(in_line > 2.0 * in_turn, "{in_line} s in line, {in_turn} s in turn\n{}\n{}", fair.printed, fifo.printed);
}

#[test]
fn a_number_the_demo_cannot_work_with_is_refused_by_its_name() {
    let place = Place::new();
    let refused = |flags: &[&str]| place.refused(&[&["demo"], flags].concat(), 2);
    for (flag, value) in [("groups", "1"), ("slots", "0"), ("seconds", "-3"), ("minutes", "x"), ("flood", "0")] {
        let said = refused(&[&format!("--{flag}"), value]);
        assert!(said.starts_with(&format!("error: {flag}: ")), "{said}");
    }
    let said = refused(&["--svg", "no/such/folder/demo.svg"]);
    assert!(said.starts_with("error: svg: no/such/folder/demo.svg: "), "{said}");
}

//! The trait stays small, and no promise is forgotten.

const TRAIT: &str = include_str!("../src/store.rs");
const SUITE: &str = include_str!("../src/conformance/mod.rs");
const PROMISES: &[(&str, &str)] = &[
    ("enqueue", include_str!("../src/conformance/enqueue.rs")),
    ("unique", include_str!("../src/conformance/unique.rs")),
    ("after", include_str!("../src/conformance/after.rs")),
    ("nodes", include_str!("../src/conformance/nodes.rs")),
    ("news", include_str!("../src/conformance/news.rs")),
    ("assign", include_str!("../src/conformance/assign.rs")),
    ("settle", include_str!("../src/conformance/settle.rs")),
    ("control", include_str!("../src/conformance/control.rs")),
    ("memo", include_str!("../src/conformance/memo.rs")),
    ("read", include_str!("../src/conformance/read.rs")),
    ("forget", include_str!("../src/conformance/forget.rs")),
    ("kept", include_str!("../src/conformance/kept.rs")),
    ("repeat", include_str!("../src/conformance/repeat.rs")),
    ("random", include_str!("../src/conformance/random.rs")),
    ("story", include_str!("../src/conformance/story.rs")),
    ("closing", include_str!("../src/conformance/closing.rs")),
    ("tokens", include_str!("../src/conformance/tokens.rs")),
    ("workers", include_str!("../src/conformance/workers.rs")),
    ("logins", include_str!("../src/conformance/logins.rs")),
    ("tickets", include_str!("../src/conformance/tickets.rs")),
    ("audit", include_str!("../src/conformance/audit.rs")),
    ("secrets", include_str!("../src/conformance/secrets.rs")),
    ("vitals", include_str!("../src/conformance/vitals.rs")),
    ("once", include_str!("../src/conformance/once.rs")),
    ("listing", include_str!("../src/conformance/listing.rs")),
    ("statistics", include_str!("../src/conformance/statistics.rs")),
    ("totals", include_str!("../src/conformance/totals.rs")),
    ("crash", include_str!("../src/conformance/crash.rs")),
    ("edit", include_str!("../src/conformance/edit.rs")),
    ("watch", include_str!("../src/conformance/watch.rs")),
    ("moving", include_str!("../src/conformance/moving.rs")),
];

/// The words that follow `start` at the beginnings of lines.
fn words<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(start)).filter_map(|rest| rest.split(['(', '<']).next())
}

/// Sixteen are about jobs and nodes. Two carry what core keeps for itself (settings, charges), and two what a run reports
/// (log, progress, steps, attempts): with one pair each for all kinds, a new kind is a value and not a verb.
#[test]
fn the_trait_has_at_most_twenty_verbs() {
    let (_, from) = TRAIT.split_once("pub trait Store").expect("the trait is in store.rs");
    let (body, _) = from.split_once("\n}").expect("the trait ends");
    let verbs: Vec<_> = words(body, "    async fn ").chain(words(body, "    fn ")).collect();
    assert!(verbs.contains(&"enqueue") && verbs.contains(&"bell"), "not read aright: {verbs:?}");
    assert!(verbs.len() <= 20, "{} verbs: {verbs:?}", verbs.len());
}

#[test]
fn every_promise_is_in_the_suite() {
    let listed: Vec<_> = SUITE.lines().map(|line| line.trim().trim_end_matches([',', ';'])).collect();
    for (verb, text) in PROMISES {
        let promises: Vec<_> = words(text, "pub async fn ").collect();
        assert!(!promises.is_empty(), "{verb}.rs promises nothing");
        for promise in promises {
            assert!(listed.contains(&promise), "{verb}::{promise} is not in conformance_suite!");
        }
    }
}

#[test]
fn every_file_of_the_suite_is_read_here() {
    for file in words(SUITE, "pub mod ").map(|name| name.trim_end_matches(';')) {
        let known = ["still", "faulty", "scene"].contains(&file) || PROMISES.iter().any(|(verb, _)| *verb == file);
        assert!(known, "{file}.rs is not looked through for promises");
    }
}

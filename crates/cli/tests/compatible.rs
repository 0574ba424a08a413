//! A binary works beside the one before it (docs/compatibility.md): both run, submit, list, cancel and retry on one database, each
//! takes over from the other, and every job ends once. The one before is built from the commit in `compatible/base`.
//!
//! With `TURNWISE_FULL=1`: it takes a build of its own, below the target folder, which later runs use again.

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::{Value, json};
use support::{Place, Serving, full, until};
use turnwise_testpg::Cluster;

/// The commit that the present binary must work beside.
const BASE: &str = include_str!("compatible/base");

#[test]
fn two_versions_work_side_by_side_on_sqlite() {
    if !asked_for() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("jobs.db").display());
    side_by_side(&database);
}

#[test]
fn two_versions_work_side_by_side_on_postgres() {
    if asked_for() {
        side_by_side(&Cluster::shared().fresh_database().unwrap());
    }
}

#[allow(clippy::print_stdout, reason = "a test that did nothing says so")]
fn asked_for() -> bool {
    if !full() {
        println!("not asked for; TURNWISE_FULL=1 builds the version before and runs it beside this one");
    }
    full()
}

fn side_by_side(database: &str) {
    let old = Place::on(database.to_owned()).run_by(base_binary());
    let new = Place::on(database.to_owned());
    old.told(&["migrate"]);
    let mut expected = Expected::default();
    expected.all_end_well(old.enqueue_all((0..20).map(|n| json!({"task": "noop", "args": n}))));
    new.told(&["migrate"]);
    old.told(&["migrate", "--check"]);
    round(["old-leads", "new-follows"], &old, &new, &mut expected);
    round(["new-leads", "old-follows"], &new, &old, &mut expected);
    assert_eq!(expected.states, states(&new), "as the new one lists them");
    assert_eq!(expected.states, states(&old), "as the old one lists them");
}

/// What each job is to end as.
#[derive(Default)]
struct Expected {
    states: BTreeMap<String, String>,
}

impl Expected {
    fn all_end_well(&mut self, ids: Vec<String>) {
        self.states.extend(ids.into_iter().map(|id| (id, "success".to_owned())));
    }
}

/// All jobs, each once, and their states.
fn states(place: &Place) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut states = BTreeMap::new();
    for job in place.json(&["jobs", "--json", "--limit", "1000000"]).as_array().unwrap() {
        let before = states.insert(text(&job["id"]), text(&job["state"]));
        assert_eq!(before, None, "{job} is listed twice");
    }
    states
}

/// Both have a node, that of `leads` dispatches; both submit, and each sees to jobs of the other. The dispatcher is killed among its
/// work, and the other node takes over.
fn round(names: [&str; 2], leads: &Place, follows: &Place, expected: &mut Expected) {
    let mut leader = serve(leads, names[0]);
    until("the first node to dispatch", || is_dispatcher(follows, names[0]).then_some(()));
    let follower = serve(follows, names[1]);
    until("both to see both", || {
        [leads, follows].iter().all(|place| names.iter().all(|name| is_alive(place, name))).then_some(())
    });

    // What one submits, the other finds, cancels and retries.
    for (submits, decides) in [(leads, follows), (follows, leads)] {
        let later = submits.enqueue(&["noop", "--in", "1d", "--unique", "later"]);
        assert_eq!(decides.enqueue(&["noop", "--unique", "later"]), later, "one key, whichever binary asks");
        assert_eq!(decides.state(&later), "waiting");
        decides.told(&["cancel", &later]);
        expected.states.insert(later, "cancelled".to_owned());
        let stuck = submits.enqueue(&["flaky", r#"{"fail":1}"#, "--retry", "manual"]);
        decides.wait_for_state(&stuck, "stuck");
        decides.told(&["retry", &stuck]);
        submits.wait_for_state(&stuck, "success");
        expected.states.insert(stuck, "success".to_owned());
        let long = submits.enqueue(&["sleep", r#"{"ms":3600000}"#]);
        decides.wait_for_state(&long, "running");
        decides.told(&["cancel", &long]);
        submits.wait_for_state(&long, "cancelled");
        expected.states.insert(long, "cancelled".to_owned());
    }

    for place in [leads, follows] {
        let sleep = |n: usize| json!({"task": "sleep", "args": {"ms": 20}, "group": format!("g{}", n % 5)});
        expected.all_end_well(place.enqueue_all((0..300).map(sleep)));
    }
    until("runs on both nodes", || {
        let done = follows.json(&["jobs", "--json", "--state", "success", "--limit", "1000000"]);
        let ran = |name: &str| done.as_array().unwrap().iter().any(|job| job["node"] == name && job["task"] == "sleep");
        (ran(names[0]) && ran(names[1])).then_some(())
    });
    leader.process.kill();
    until("the other node to dispatch", || is_dispatcher(follows, names[1]).then_some(()));
    until("the end of all jobs", || {
        let left = follows.json(&["jobs", "--json", "--limit", "1", "--state", "waiting,scheduled,running,stuck"]);
        left.as_array().unwrap().is_empty().then_some(())
    });
    follower.stop();
}

fn serve(place: &Place, name: &str) -> Serving {
    place.serve(&["--demo-tasks", "--name", name, "--slots", "4", "--lease", "2s", "--poll-interval", "100ms"])
}

fn node(place: &Place, name: &str) -> Option<Value> {
    let nodes = place.json(&["nodes", "--json"]);
    nodes.as_array().unwrap().iter().find(|node| node["name"] == name && node["state"] == "alive").cloned()
}

fn is_alive(place: &Place, name: &str) -> bool {
    node(place, name).is_some()
}

fn is_dispatcher(place: &Place, name: &str) -> bool {
    node(place, name).is_some_and(|node| node["dispatcher"] == true)
}

/// The binary of the commit before: built once, and kept under the commit's name.
fn base_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("compatible");
        let commit = BASE.trim();
        let kept = target.join(format!("turnwise-{commit}"));
        if !kept.exists() {
            build(commit, &target, &kept);
        }
        kept
    })
}

fn build(commit: &str, target: &Path, kept: &Path) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("turnwise");
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(project).args(args).arg(&tree);
        git
    };
    let mut add = git(&["worktree", "add", "--quiet", "--force", "--detach"]);
    add.arg(commit);
    succeeds(&mut add, "is this a clone of the repository, with its history? the base is a commit of it");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--quiet", "--bin", "turnwise"]).current_dir(&tree);
    // What cargo has set for this test would make it build some dependencies again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO") && text != "CARGO_HOME" || text.starts_with("TURNWISE_") {
            cargo.env_remove(&name);
        }
    }
    succeeds(cargo.env("CARGO_TARGET_DIR", target), "the base does not build");
    // Renamed last: a copy that was cut off must not be taken for the binary.
    let copy = target.join(format!("turnwise-{commit}.new"));
    fs::copy(target.join("debug/turnwise"), &copy).unwrap();
    fs::rename(copy, kept).unwrap();
    succeeds(&mut git(&["worktree", "remove", "--force"]), "the tree of the base could not be removed");
}

fn succeeds(command: &mut Command, otherwise: &str) {
    // The repository that the caller of the tests works in must not count.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{otherwise}: {command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

//! Every option of every command, on a database and against a server of the same database: the same output and the same exit code. (What
//! commands say about jobs in all states, and about mistakes: both_ways.rs.)

mod support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use support::{Place, Ways, on_both_databases};

/// Calls that change something or name what is a way's own: `{}` is one word here and another there, and so are the jobs `WAITS`, `STUCK`,
/// `FAILED` and `DONE`. They stand in the order in which they are made.
const DONE: &[&str] = &[
    "enqueue noop --queue later --group {} --key k-{} --priority high --in 1h --retry none --timeout 3m --expires 2d --on-exhausted talk --next sleep",
    "enqueue noop --queue later --at 2030-01-31T08:30:00Z --unique u-{} --unique-scope queue --unique-for 1h --on-duplicate keep",
    "enqueue noop {\"of\":\"{}\"} --queue later --group {} --in 1h --unique-by-args",
    "enqueue noop --queue later --after WAITS --on-failure cancel",
    "enqueue noop --queue work --wait",
    "enqueue --stdin",
    "change WAITS --priority 7 --in 3h --queue slow",
    "change WAITS --at 2031-01-31T08:30:00Z",
    "change --filter group=many-{} --limit 1 --dry-run --now",
    "change --filter group=many-{} --limit 1 --now --yes",
    "cancel --filter group=many-{} --limit 2 --dry-run",
    "cancel --filter group=many-{} --limit 2 --yes",
    "retry --filter group=many-{} --limit 1 --dry-run",
    "retry --filter group=many-{} --limit 1 --yes",
    "retry DONE",
    "retry --again DONE",
    "fail --filter group=stuck-{} --limit 1 --dry-run",
    "fail --filter group=stuck-{} --limit 1 --yes",
    "queue set q-{} --weight 2 --concurrency 3 --per-node 2 --rate 10/1m --fairness time --on-error pause --after later --schedule @daily --zone Asia/Tokyo",
    "queue set q-{} --fairness turns --on-error block --scheme none",
    "queue set p-{} --scheme 3,1",
    "queue set p-{} --block Sat#00:00-24:00#UTC",
    "queue pause n-{}",
    "queue pause n-{} --force --reason lunch",
    "queue resume m-{} --force",
    "queue seal l-{} --force",
    "queue seal l-{} --undo",
    "queue reset o-{} --force",
    "queue empty e-{} --dry-run",
    "queue empty e-{} --yes",
    "group set g-{} --weight 3 --concurrency 7 --rate 1/1s --scheme 2,1 --max-waiting 9",
    "group pause h-{} --force --reason lunch",
    "group resume i-{} --force",
    "group reset j-{} --force",
    "task set t-{} --concurrency 7 --rate 1/1s",
    "task reset s-{} --force",
    "key set k-{} --concurrency 7 --rate 1/1s",
    "key reset x-{} --force",
    "installation set --scheme 3,1 --retention failed=30d --log-lines 500",
    "schedule add a-{} noop [1] --cron 0#2#*#*#* --zone Europe/Berlin --queue later --group {} --key k --priority 2 --retry none --timeout 1m --on-exhausted talk --next sleep --overlap skip --catch-up one",
    "schedule add b-{} noop --every 1h --overlap allow --catch-up all",
    "schedule show a-{}",
    "schedule show a-{} --json",
    "schedule pause a-{} --reason holidays",
    "schedule resume a-{}",
    "schedule run a-{}",
    "schedule remove a-{}",
    "token create --name t-{} --scope submit,read --queue later --group {} --task noop --expires 1d --rate 5",
    "token create --name v-{} --scope read --json",
    "job WAITS --graph --svg graph-{}.svg",
    "job DONE --watch",
    "resubmit DONE --show",
    "resubmit DONE --args [1] --task sleep --queue later --group {} --priority 2 --in 1h",
    "resubmit DONE --queue later --at 2030-01-31T08:30:00Z",
    "job WAITS --json",
    "why WAITS --json",
    "logs DONE --lines 3 --json",
    "logs DONE --follow",
    "prune --yes",
];

/// Calls that only look, at the same things.
const SEEN: &[&str] = &[
    "jobs --state waiting --queue later --group many-alpha --task noop --since 1h --until 2030-01-31T08:30:00Z --limit 5 --wide",
    "jobs --unique u-alpha --json",
    "jobs --args-contain alpha",
    "jobs --state failed --by error",
    "jobs --filter state=failed",
    "nodes --wide",
    "nodes --json",
    "queues --wide",
    "queues --json",
    "groups --wide",
    "groups --json",
    "tasks --wide",
    "tasks --json",
    "keys --wide",
    "keys --json",
    "schedule list --wide",
    "schedule list --json",
    "installation show --json",
    "audit --actor nobody --target queue:later --since 1h --until 1m --limit 3 --wide",
    "audit --json",
    "token list --wide",
    "token list --json",
    "simulate --slots 8 --weight acme=2 --concurrency later=2 --group-concurrency acme=1 --pause many-alpha --wide",
    "simulate --json",
];

/// Options that a server refuses (tests/both_ways.rs), that only a server has (tests/embed.rs), or whose output changes from one look to the next and is
/// compared in tests/both_ways.rs when it rests.
const NOT_HERE: &[(&str, &[&str])] = &[
    ("queues", &["--exact"]),
    ("groups", &["--exact"]),
    ("tasks", &["--exact"]),
    ("keys", &["--exact"]),
    ("prune", &["--dry-run", "--retention"]),
    ("top", &["--once", "--json"]),
    ("doctor", &["--json"]),
    ("token ticket", &["--group", "--origin", "--scope", "--queue", "--task", "--json"]),
];
const NEITHER: &[&str] = &["bench", "completions", "config", "demo", "man", "migrate", "move", "serve"];

/// Every command that has no others below it, and its own options.
fn options(place: &Place, of: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let help = place.told(&[of, &["--help"]].concat());
    let own = help.split("Global options:").next().unwrap();
    if let Some((_, commands)) = own.split_once("\nCommands:\n") {
        let commands = commands.split("\n\n").next().unwrap().lines().filter_map(|line| line.split_whitespace().next());
        let commands = commands.filter(|name| *name != "help" && !(of.is_empty() && NEITHER.contains(name)));
        return commands.flat_map(|name| options(place, &[of, &[name]].concat())).collect();
    }
    let (_, own) = own.split_once("\nOptions:\n").unwrap_or_else(|| panic!("{of:?} has no options: {help}"));
    let words = own.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
    let named = words.filter(|word| !["--help", "--version"].contains(word)).map(str::to_owned).collect();
    [(of.join(" "), named)].into()
}

#[test]
fn every_option_has_its_call_here() {
    let mut missing: Vec<String> = Vec::new();
    for (name, options) in options(&Place::new(), &[]) {
        let calls = DONE.iter().chain(SEEN).filter(|call| call.starts_with(&format!("{name} ")));
        let called: BTreeSet<&str> = calls.flat_map(|call| call.split(' ')).collect();
        let elsewhere = NOT_HERE.iter().filter(|(of, _)| *of == name).flat_map(|(_, options)| options.iter().copied());
        let known: BTreeSet<&str> = called.into_iter().chain(elsewhere).collect();
        missing.extend(options.iter().filter(|one| !known.contains(one.as_str())).map(|one| format!("{name} {one}")));
    }
    assert_eq!(missing, Vec::<String>::new());
}

fn every_option_is_the_same(place: &Place) {
    let ways = Ways::open_with_token(place);
    let own = ["alpha", "omega"];
    let later = |group: &str| json!({"task": "noop", "queue": "later", "in": "1h", "group": group});
    let mut jobs: Vec<BTreeMap<&str, String>> = Vec::new();
    for word in own {
        let fails = |retry: &str, group: String| json!({"task": "flaky", "queue": "work", "args": {"fail": 9}, "retry": retry, "group": group});
        let ids = place.enqueue_all([
            later(&format!("single-{word}")),
            fails("manual", format!("stuck-{word}")),
            json!({"task": "noop", "queue": "work"}),
            json!({"task": "noop", "queue": format!("e-{word}"), "in": "1h"}),
        ]);
        place.enqueue_all(vec![later(&format!("many-{word}")); 3]);
        place.wait_for_state(&ids[1], "stuck");
        place.wait_for_state(&ids[2], "success");
        jobs.push(["WAITS", "STUCK", "DONE"].into_iter().zip(ids).collect());
    }
    for call in DONE {
        let [here, there] = [0, 1].map(|way| -> Vec<String> {
            let filled = |word: &str| match jobs[way].get(word) {
                Some(id) => id.clone(),
                None => word.replace("{}", own[way]).replace('#', " "),
            };
            call.split(' ').map(filled).collect()
        });
        let [here, there]: [Vec<&str>; 2] = [&here, &there].map(|words| words.iter().map(String::as_str).collect());
        let input = here.contains(&"--stdin").then_some("{\"task\":\"noop\",\"queue\":\"later\",\"in\":\"1h\"}\n");
        ways.same_pair(&here, &there, input);
    }
    for call in SEEN {
        ways.same(&call.split(' ').collect::<Vec<_>>());
    }
}

on_both_databases!(every_option_is_the_same);

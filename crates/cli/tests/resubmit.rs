//! A job is submitted again, with changes: by the command, on a database and through a server. Real binary, both databases.

mod support;

use serde_json::{Value, json};
use support::{Place, on_both_databases};

on_both_databases!(a_job_is_submitted_again_and_its_secret_is_kept, what_cannot_be_submitted_again_says_why,);

/// A node that knows `pay`, whose card is secret, and answers HTTP; it serves a queue that has no jobs.
fn serving(place: &Place) -> (support::Serving, String) {
    let tasks = "[tasks.pay]\ncommand = ['true']\nsecret = ['/card']\n";
    std::fs::write(place.path().join("turnwise.toml"), tasks).unwrap();
    let node = place.serve(&["--queue", "none", "--listen", "127.0.0.1:0"]);
    let (_, address) = node.ready.split_once("http://").unwrap_or_else(|| panic!("no address: {}", node.ready));
    let address = format!("http://{}", address.trim());
    (node, address)
}

fn a_job_is_submitted_again_and_its_secret_is_kept(place: &Place) {
    let (_node, server) = serving(place);
    let stored = r#"{"card":"4111-1111","n":1.50,"to":"amn"}"#;
    let id = place.enqueue(&["pay", stored, "--group", "acme", "--priority", "7"]);
    let shown = r#"{"task":"pay","args":{"card":"[secret /card]","n":1.50,"to":"amn"},"queue":"default","group":"acme","priority":7}"#;
    for way in [vec![], vec!["--server", server.as_str()]] {
        let told = |args: &[&str]| place.told(&[args, &way].concat()).trim().to_owned();
        assert_eq!(told(&["resubmit", &id, "--show"]), shown, "{way:?}");
        // The beginning of an id is enough.
        let edited = r#"{"card":"[secret /card]","n":1.50,"to":"ann"}"#;
        let new = told(&["resubmit", &id[..id.len() - 1], "--args", edited, "--priority", "high", "--queue", "fast"]);
        assert_ne!(new, id);
        let job = place.job(&new);
        let is = ["group", "priority", "queue", "state"].map(|name| job[name].clone());
        assert_eq!(is, [json!("acme"), json!(3), json!("fast"), json!("waiting")], "{way:?}");
        // What is found by the card still has it; no output shows it.
        let same = told(&["resubmit", &new, "--in", "1h"]);
        let found: Value = serde_json::from_str(&told(&["jobs", "args.card=[secret] args.to=ann", "--json"])).unwrap();
        let ids: Vec<_> = found.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert!(ids.contains(&same.as_str()) && ids.contains(&new.as_str()), "{way:?}: {found}");
        assert!(!told(&["job", &same]).contains("4111-1111"));
    }
    assert_eq!(place.job(&id)["priority"], 7, "it stays as it is");
    let lines: Value = serde_json::from_str(&place.told(&["audit", "--json"])).unwrap();
    let made = lines.as_array().unwrap().iter().filter(|line| line["verb"] == "resubmit");
    assert_eq!(made.count(), 4, "{lines}");
}

fn what_cannot_be_submitted_again_says_why(place: &Place) {
    let (_node, server) = serving(place);
    let id = place.enqueue(&["pay", r#"{"card":"4111-1111"}"#]);
    for way in [vec![], vec!["--server", server.as_str()]] {
        for (args, code, text) in [
            (vec!["--args", "{"], 2, "args: is not JSON"),
            (vec!["--priority", "11"], 2, "priority: must be 1"),
            (vec!["--args", r#"{"note":"[secret /card]"}"#], 2, "would not be secret there"),
            (vec!["--task", "echo"], 2, "task echo would show what is secret for pay"),
            (vec!["--show", "--task", "echo"], 2, "cannot be used with"),
        ] {
            let output = place.run(&[&["resubmit", &id], args.as_slice(), &way].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.contains(text)), (Some(code), true), "{way:?} {args:?}: {said}");
            assert!(!said.contains("4111"), "{said}");
        }
        let none = place.run(&[&["resubmit", "01890163-d869-7739-8aea-5966c26f8ad9"], way.as_slice()].concat());
        let said = String::from_utf8(none.stderr).unwrap();
        assert!(!none.status.success() && said.contains("01890163"), "{said}");
    }
    let jobs: Value = serde_json::from_str(&place.told(&["jobs", "--json"])).unwrap();
    assert_eq!(jobs.as_array().unwrap().len(), 1, "what was refused left nothing: {jobs}");
}

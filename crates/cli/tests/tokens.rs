//! Tokens with the real binary, on both databases.

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Place, succeeded};

fn listed(place: &Place) -> Vec<Value> {
    place.json(&["token", "list", "--json"]).as_array().expect("an array").clone()
}

#[test]
fn a_token_is_created_listed_and_revoked() {
    for place in Place::on_both() {
        assert_eq!(listed(&place), [] as [Value; 0]);
        let secret =
            place.told(&["token", "create", "--name", "nightly", "--scope", "submit,read", "--expires", "30d"]);
        let secret = secret.trim();
        assert!(secret.starts_with("tw_") && secret.len() == 46, "{secret}");
        let created = [
            ["token", "create", "--name", "acme", "--scope", "operate"].as_slice(),
            &["--queue", "mail", "--queue", "slow", "--group", "acme", "--task", "send", "--rate", "50", "--json"],
        ]
        .concat();
        let created = place.json(&created);
        assert!(created["secret"].as_str().is_some_and(|secret| secret.len() == 46), "{created}");

        let tokens = listed(&place);
        assert_eq!(tokens.iter().map(|token| &token["name"]).collect::<Vec<_>>(), ["acme", "nightly"]);
        let acme = &tokens[0];
        assert_eq!(acme["id"], created["id"]);
        assert_eq!((&acme["scopes"], &acme["state"]), (&json!(["operate"]), &json!("active")));
        assert_eq!(acme["queues"], json!(["mail", "slow"]));
        assert_eq!((&acme["groups"], &acme["tasks"], &acme["rate"]), (&json!(["acme"]), &json!(["send"]), &json!(50)));
        assert_eq!((&acme["expires_at"], &acme["last_used_at"]), (&Value::Null, &Value::Null));
        assert!(tokens[1]["expires_at"].is_string() && tokens[1]["queues"].is_null(), "{}", tokens[1]);
        assert!(tokens.iter().all(|token| token.get("secret").is_none()), "a secret is shown once");
        let table = place.told(&["token", "list"]);
        assert!(table.contains("queue mail,slow; group acme; task send") && table.contains("never"), "{table}");

        let prefix = acme["prefix"].as_str().expect("a text");
        assert_eq!(place.told(&["token", "revoke", prefix]), format!("token {prefix} (acme) is revoked\n"));
        let told = place.told(&["token", "revoke", secret]);
        assert!(told.ends_with("(nightly) is revoked\n") && !told.contains(secret), "{told}");
        let id = acme["id"].as_str().expect("a text");
        place.told(&["token", "revoke", id]);
        let states: Vec<_> = listed(&place).iter().map(|token| token["state"].clone()).collect();
        assert_eq!(states, ["revoked", "revoked"]);
    }
}

#[test]
fn a_secret_is_in_the_database_only_as_a_hash() {
    let place = Place::on_sqlite();
    let output = place.run(&["token", "create", "--name", "x", "--scope", "admin"]);
    let secret = succeeded(&output);
    let (shown, hidden) = secret.trim().split_at(11);
    let holds = |text: &str| {
        let files = fs::read_dir(place.path()).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
        files.into_iter().any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    assert!(holds(shown) && !holds(hidden), "how it begins is there, the rest is not");
    assert!(!String::from_utf8_lossy(&output.stderr).contains(hidden));
}

#[test]
fn a_token_that_makes_no_sense_is_refused_by_its_field() {
    let place = Place::on_sqlite();
    let create = |rest: &[&'static str]| [["token", "create", "--name", "x"].as_slice(), rest].concat();
    for (rest, part) in [
        (["--scope", "root"].as_slice(), "scope: must be one of submit, read, operate, admin, work, not \"root\""),
        (&["--scope", "read,"], "scope: must be one of"),
        (&["--scope", "work", "--group", "acme"], "group: a token with the scope work cannot be limited to groups"),
        (&["--scope", "read", "--queue", ""], "queue: must not be empty"),
        (&["--scope", "read", "--expires", "soon"], "expires: "),
        (&["--scope", "read", "--expires", "0s"], "expires: must be longer than nothing"),
        (&["--scope", "submit", "--rate", "0"], "rate: must be a number from 1 on"),
        (&["--scope", "submit", "--rate", "-1"], "rate: must be a number from 1 on"),
        (&[], "--scope"),
    ] {
        place.refuses(&create(rest), 2, part);
    }
    assert_eq!(listed(&place), [] as [Value; 0], "nothing was created");
    place.refuses(&["token", "revoke", "tw_nothing"], 2, "there is no token \"tw_nothing\"");
    let nobody = "00000000-0000-4000-8000-000000000000";
    place.refuses(&["token", "revoke", nobody], 2, "there is no token 00000000-");
}

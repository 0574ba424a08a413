use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    access::{Grant, Limits, Scope},
    job::{Counts, Fence, JobState, Priority},
    lifecycle::{EditRequest, JobFacts, decide, edit},
    name::TokenName,
    terms::Terms,
};

const SECRET: &str = r#"{"password":"hunter2"}"#;

fn actor() -> Actor {
    Actor::named("cli:alice@box").unwrap()
}

fn id() -> AuditId {
    AuditId(Uuid::from_u128(7))
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn job(state: JobState) -> Job {
    Job {
        id: JobId::from_parts(1, [1; 10]),
        task: TaskName::new("mail").unwrap(),
        args: Json::parse("args", SECRET).unwrap(),
        queue: QueueName::default(),
        group: GroupName::default(),
        priority: Priority::default(),
        retry: None,
        key: None,
        unique: None,
        terms: Terms::default(),
        state,
        counts: Counts::default(),
        fence: Fence(1),
        cancel_requested: false,
        node: None,
        result: None,
        error: None,
        fingerprint: None,
        expires_at: None,
        submitted_at: at(0),
        due_at: Some(at(0)),
        assigned_at: None,
        started_at: None,
        finished_at: None,
    }
}

fn told(line: &NewAuditLine) -> (Value, Value) {
    let read = |side: &Option<Json>| side.as_ref().map_or(Value::Null, |side| side.decode().unwrap());
    (read(&line.before), read(&line.after))
}

fn decided(job: &Job, event: &Event) -> Option<NewAuditLine> {
    let to = decide(&JobFacts::from(job), event, at(60), 0.0).unwrap();
    NewAuditLine::of_job((id(), &actor()), AuditVerb::of(event).unwrap(), job, &to)
}

#[test]
fn a_decision_about_a_job_tells_what_it_changes_and_which_job_it_was() {
    let line = decided(&job(JobState::Waiting), &Event::Cancel).unwrap();
    let (before, after) = told(&line);
    assert_eq!((line.verb, line.target), (AuditVerb::Cancel, AuditTarget::Job(job(JobState::Waiting).id)));
    assert_eq!(after, json!({"state": "cancelled"}));
    assert_eq!(before["args"], "sha256:7881d759c44f0e45f22a9ec1075a2b26a80da5dea5e08eb791d84468c4388222");
    assert_eq!(
        (&before["task"], &before["queue"], &before["state"]),
        (&json!("mail"), &json!("default"), &json!("waiting"))
    );
    let (before, after) = told(&decided(&job(JobState::Failed), &Event::Retry).unwrap());
    assert_eq!(after, json!({"state": "waiting", "due_at": at(60).to_string()}));
    assert_eq!(before["state"], "failed");
}

#[test]
fn a_cancel_that_was_asked_for_before_has_no_line() {
    let running = job(JobState::Running);
    let (_, after) = told(&decided(&running, &Event::Cancel).unwrap());
    assert_eq!(after, json!({"cancel_requested": true}));
    assert_eq!(decided(&Job { cancel_requested: true, ..running }, &Event::Cancel), None);
}

#[test]
fn an_edit_tells_what_is_edited_and_one_that_changes_nothing_has_no_line() {
    let waiting = job(JobState::Waiting);
    let line = |asked: EditRequest| {
        let to = edit(&waiting, &asked, &QueueSettings::default(), at(60)).unwrap();
        NewAuditLine::of_job((id(), &actor()), AuditVerb::Change, &waiting, &to)
    };
    let other =
        EditRequest { priority: Some(Priority::new(1).unwrap()), queue: QueueName::new("slow").ok(), due: None };
    let (before, after) = told(&line(other).unwrap());
    assert_eq!((&after["priority"], &after["queue"]), (&json!(1), &json!("slow")));
    assert_eq!((&before["priority"], &before["queue"]), (&json!(5), &json!("default")));
    let same = EditRequest { priority: Some(waiting.priority), ..EditRequest::default() };
    assert_eq!(line(same), None);
}

fn setting(target: &str, before: Option<&str>, after: Option<&str>) -> Option<(Value, Value)> {
    let target = target.parse().unwrap();
    NewAuditLine::of_setting((id(), &actor()), AuditVerb::Set, target, before, after).map(|line| told(&line))
}

#[test]
fn settings_are_told_in_as_far_as_they_differ_and_nothing_set_means_the_defaults() {
    let set = setting("queue:mail", None, Some(r#"{"weight":2.5}"#)).unwrap();
    assert_eq!(set, (json!({"weight": 1.0}), json!({"weight": 2.5})));
    let reset = setting("group:acme", Some(r#"{"weight":0.5,"concurrency":3}"#), None).unwrap();
    assert_eq!(reset, (json!({"weight": 0.5, "concurrency": 3}), json!({"weight": 1.0, "concurrency": null})));
    assert_eq!(setting("queue:mail", None, Some(r#"{"weight":1}"#)), None, "the default is set already");
    assert_eq!(setting("queue:mail", Some("{}"), None), None);
    assert_eq!(setting("key:db", Some("{}"), Some("{}")), None);
    let (before, _) = setting("task:mail", Some(r#"{"newer":1}"#), None).unwrap();
    assert_eq!(before, json!({"unreadable": {"newer": 1}}));
}

#[test]
fn a_schedule_is_told_without_the_arguments_of_its_jobs() {
    let schedule = |args: &str| {
        let terms = serde_json::to_string(&format!(r#"{{"on_exhausted":{{"task":"sorry","args":{args}}}}}"#)).unwrap();
        format!(
            r#"{{"every":"1h","task":"report","args":{args},"queue":"q","group":"g","priority":5,"terms":{terms},
                 "overlap":"skip","catch_up":"one","since":0}}"#
        )
    };
    let (before, after) = setting("schedule:nightly", None, Some(&schedule(SECRET))).unwrap();
    assert_eq!(before, Value::Null);
    assert_eq!((&after["task"], &after["since"]), (&json!("report"), &json!(at(0).to_string())));
    assert!(after["args"].as_str().unwrap().starts_with("sha256:"), "{after}");
    assert!(!after.to_string().contains("hunter2"), "{after}");
    let other = setting("schedule:nightly", Some(&schedule(SECRET)), Some(&schedule("1"))).unwrap();
    assert_eq!(other.0.as_object().unwrap().keys().collect::<Vec<_>>(), ["args", "terms"], "other arguments are seen");
    let broken = format!(r#"{{"newer":{SECRET}}}"#);
    let (before, after) = setting("schedule:nightly", Some(&broken), None).unwrap();
    assert!(!before.to_string().contains("hunter2") && after.is_null(), "{before}");
}

#[test]
fn a_token_is_told_without_its_secret_by_name_and_what_it_may_do() {
    let token = NewToken {
        id: TokenId(Uuid::from_u128(3)),
        name: TokenName::new("nightly").unwrap(),
        prefix: "tw_abcdefgh".to_owned(),
        grant: Grant::new([Scope::Read], Limits::default()).unwrap(),
        rate: None,
        expires_at: None,
    };
    let (before, after) = told(&NewAuditLine::of_new_token((id(), &actor()), &token));
    assert_eq!((before, &after["name"]), (Value::Null, &json!("nightly")));
    assert_eq!(after["granted"], json!({"scopes": ["read"]}));
    let token = token.created(at(0));
    let (before, after) = told(&NewAuditLine::of_revoked_token((id(), &actor()), &token));
    assert_eq!((&before["prefix"], after), (&json!("tw_abcdefgh"), json!({"revoked": true})));
    let bearer = Actor::token(&token);
    assert_eq!(bearer.id().as_str(), "token:00000000-0000-0000-0000-000000000003");
    assert_eq!(bearer.label(), Some("nightly (tw_abcdefgh…)"));
    assert!(Actor::named(bearer.id().as_str()).is_err(), "nobody else is called like a token");
}

#[test]
fn a_ticket_is_told_if_it_may_change_something() {
    let token = NewToken {
        id: TokenId(Uuid::from_u128(3)),
        name: TokenName::new("host").unwrap(),
        prefix: "tw_abcdefgh".to_owned(),
        grant: Grant::unlimited(),
        rate: None,
        expires_at: None,
    };
    let token = token.created(at(0));
    let origins = ["https://app.example".to_owned()];
    let line = |scope| {
        NewAuditLine::of_ticket((id(), &actor()), &token, &Grant::new([scope], Limits::default()).unwrap(), &origins)
    };
    let (before, after) = told(&line(Scope::Operate).unwrap());
    let ticket = json!({"granted": {"scopes": ["operate"]}, "origins": ["https://app.example"]});
    assert_eq!((before, after), (Value::Null, json!({"ticket": ticket})));
    assert!(line(Scope::Read).is_none(), "looking is no change");
    let bearer = Actor::ticket_of(&token);
    assert_eq!(bearer.id(), Actor::token(&token).id(), "its changes are found by the token");
    assert_eq!(bearer.label(), Some("host (tw_abcdefgh…), by a ticket"));
}

#[test]
fn a_target_is_read_as_it_is_written_and_nothing_else_is_one() {
    let id = "01890163-d869-7739-8aea-5966c26f8ad9";
    for text in [
        &format!("job:{id}"),
        "queue:a:b",
        "group:acme",
        "task:t",
        "key:k",
        "schedule:s",
        &format!("token:{id}"),
        "installation",
    ] {
        assert_eq!(text.parse::<AuditTarget>().unwrap().to_string(), text);
    }
    for text in ["", "x", "job:1", "queue:", "machine:a", "decision:x", "node:", "token:x", "installation:"] {
        assert!(text.parse::<AuditTarget>().unwrap_err().to_string().starts_with("target: "), "{text}");
    }
}

proptest! {
    /// However long the reason of a pause is, a line is short.
    #[test]
    fn a_line_is_bounded(reason in "[a-z]{0,5000}", names in 0..200_usize) {
        let after: Vec<String> = (0..names).map(|n| format!("queue {n} {reason}")).collect();
        let set = json!({"paused": {"since": at(0), "reason": reason}, "after": after}).to_string();
        let line = NewAuditLine::of_setting((id(), &actor()), AuditVerb::Pause, "queue:q".parse().unwrap(), None, Some(&set)).unwrap();
        prop_assert!(line.after.unwrap().as_str().len() <= 8_000);
    }
}

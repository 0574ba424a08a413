use proptest::prelude::*;
use turnwise_core::{
    GroupName, Job, JobId, JobState, Json, NodeName, ScheduleName, TaskName, Timestamp, UniqueKey,
    periodic::{Periodic, When, run_id},
    secret::{Pointer, Secrets},
    unique::HeldKey,
};

use super::*;
use crate::{AskJobs, JobRequest, ListFilter, Turnwise};

fn filter(text: &str) -> JobFilter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    text.parse::<JobFilter>().map(|filter| panic!("{text} is read as {filter}")).unwrap_err().to_string()
}

fn now() -> Timestamp {
    "2030-01-31T08:00:00Z".parse().unwrap()
}

fn job(args: &str) -> Job {
    let new = JobRequest::from_json("extract", args).group("acme").queue("slow").key("db").into_job(now()).unwrap();
    Job {
        id: "01890163-d869-7739-8aea-5966c26f8ad9".parse().unwrap(),
        task: new.task,
        args: new.args,
        queue: new.queue,
        group: new.group,
        priority: new.priority,
        retry: new.retry,
        key: new.key,
        unique: Some(HeldKey { key: UniqueKey::new("doc-7").unwrap(), scope: "queue:slow".to_owned(), until: None }),
        terms: new.terms,
        state: JobState::Failed,
        counts: Default::default(),
        fence: Default::default(),
        cancel_requested: false,
        node: Some(NodeName::new("alpha").unwrap()),
        result: Some(Json::parse("result", r#"{"code":7,"said":"Zo\u00eb"}"#).unwrap()),
        error: Some("Connection refused (os error 111): a.b".to_owned()),
        fingerprint: Some("3f0c00000001".to_owned()),
        submitted_at: now().minus(std::time::Duration::from_secs(3_600)),
        due_at: None,
        assigned_at: None,
        started_at: None,
        finished_at: None,
        expires_at: None,
    }
}

const ARGS: &str = r#"{"pages":12,"id":9007199254740993,"price":1.50,"customer":{"first name":"Ann \"A\"","since":"2029-05-01"},
"tags":["urgent","x"],"lines":[{"sku":1},{"sku":2}],"paid":true,"note":null,"number":"10"}"#;

fn meets(text: &str) -> bool {
    filter(text).at(now()).admits(&job(ARGS), &Secrets::default())
}

#[test]
fn a_job_is_found_by_what_its_row_says() {
    for text in [
        "",
        "state:failed",
        "state=stuck,failed",
        "-state:success",
        "task:extract queue=slow group:acme,beta key:db node:alpha unique:doc-7",
        "node:beta,alpha",
        "unique:doc-7,doc-8",
        "task!=mail",
        "-task:mail,send",
        "fingerprint:3f0c00000001",
        "fingerprint:3F0C00000001,000000000000",
        "id:0189",
        "id:0189,ffff",
        "id:01890163-d869-7739-8aea-5966c26f8ad9",
        "priority:5 priority<=5 priority!=1 priority>high",
        "attempt:0 attempt<3",
        "since:2h until:30m",
        "since:2030-01-31T07:00:00Z",
        "-since:30m",
        "task:mail task:extract",
    ] {
        assert!(meets(text), "{text}");
    }
    for text in [
        "state:waiting",
        "-state:failed",
        "state!=waiting,failed",
        "task:mail",
        "task!=extract",
        "queue:slow -queue:slow",
        "node:beta",
        "node:beta,gamma",
        "unique:doc-8",
        "unique:doc-8,doc-9",
        "key:web",
        "fingerprint:000000000000",
        "id:0188",
        "id:0188,ffff",
        "id:0189 id!=01890163",
        "priority>5",
        "attempt>0",
        "since:30m",
        "until:2h",
    ] {
        assert!(!meets(text), "{text}");
    }
}

#[test]
fn a_job_is_found_by_values_of_its_arguments_and_result() {
    for text in [
        "args.pages>10 args.pages<=12 args.pages=12.0 args.pages!=10",
        "args.pages=1.2e1",
        "args.id=9007199254740993 args.id>9007199254740992",
        "args.price=1.5 args.price<1e400",
        r#"args.customer."first name"="Ann \"A\"""#,
        r#"args.customer.since>2029-04-30 args.customer.since<"2030""#,
        "args.tags=urgent args.tags.1=x",
        "args.lines.1.sku=2",
        "args.paid=true args.note=null",
        "args.number=10 args.number=\"10\"",
        "args.none!=1",
        "-args.none>1",
        "result.code=7 result.said=Zoë",
        "args.pages=1,12",
    ] {
        assert!(meets(text), "{text}");
    }
    for text in [
        "args.pages>12",
        "args.pages=\"12\"",
        "args.id=9007199254740992",
        "args.number>9",
        "args.customer=Ann",
        "args.lines.sku=2",
        "args.lines.7.sku=2",
        "args.paid=\"true\"",
        "args.none=null",
        "args.none<1",
        "args=12",
        "result.code>7",
    ] {
        assert!(!meets(text), "{text}");
    }
}

#[test]
fn a_text_is_found_as_it_was_copied_in_any_case() {
    for text in [
        "error~refused",
        r#"error~"(OS ERROR 111)""#,
        r#"error~"connection*a.b""#,
        "error~timeout,refused",
        "error~*",
        "-error~timeout",
        "args~urgent",
        r#"args~"\"pages\":12""#,
        "args.tags~URG",
        "args.pages~12",
        r#"args.customer."first name"~"ann \"""#,
        "result~zoë",
        "args.pages~*",
        "-args.none~*",
    ] {
        assert!(meets(text), "{text}");
    }
    for text in ["error~timeout", "error~a.b*refused", "error~[a-z]", "args.none~*", "result~urgent", "args~zoë"] {
        assert!(!meets(text), "{text}");
    }
}

#[test]
fn an_error_that_a_job_got_over_is_not_what_it_is_found_by() {
    let job = Job { state: JobState::Success, ..job(ARGS) };
    for text in ["error~refused", "fingerprint:3f0c00000001,000000000000", "fingerprint:3f0c00000001"] {
        assert!(!filter(text).at(now()).admits(&job, &Secrets::default()), "{text}");
    }
}

#[test]
fn no_filter_tells_a_secret_apart_from_any_other_value() {
    let mut secrets = Secrets::default();
    secrets.add(TaskName::new("extract").unwrap(), Pointer::new("/card").unwrap());
    let with = |card: &str| Job {
        result: Some(Json::parse("result", &format!(r#"{{"paid":"{card}"}}"#)).unwrap()),
        error: Some(format!("no money on {card}")),
        ..job(&format!(r#"{{"card":"{card}","n":1}}"#))
    };
    for text in [
        "args.card=41111111",
        "args.card=\"41111111\"",
        "args.card!=41111111",
        "args.card>4",
        "args.card<\"5\"",
        "args.card~41",
        "args~41111111",
        "-args~41111111",
        "result~41111111",
        "result.paid=41111111",
        "error~41111111",
        "args.card=[secret]",
        "args.card~*",
        "args.n=1",
    ] {
        let search = filter(text).at(now());
        let answers = ["41111111", "52222222"].map(|card| search.admits(&with(card), &secrets));
        assert_eq!(answers[0], answers[1], "{text}");
    }
    assert!(filter("args.card=[secret] args.n=1").at(now()).admits(&with("41111111"), &secrets));
    let by_text = |text: &str| Search::from(ListFilter { args: Some(text.to_owned()), ..ListFilter::default() });
    assert!(!by_text("4111").admits(&with("41111111"), &secrets) && by_text("secret").admits(&with("4"), &secrets));
}

#[test]
fn what_an_index_serves_is_asked_of_the_store_and_the_rest_is_not() {
    let search = |text: &str| filter(text).at(now());
    let listed = |text: &str| {
        let search = search(text);
        assert!(!search.looks_closer(), "{text}");
        search.list
    };
    let group = |name: &str| GroupName::new(name).unwrap();
    assert_eq!(listed("group:acme,beta").groups, Some([group("acme"), group("beta")].into()));
    assert_eq!(listed("state:failed since:2h node:alpha").since, Some("2030-01-31T06:00:00Z".parse().unwrap()));
    assert_eq!(listed("since:2h since:1h").since, Some("2030-01-31T07:00:00Z".parse().unwrap()), "both must hold");
    assert_eq!(listed("-state:success,failed,cancelled").states.len(), 4);
    assert_eq!(listed("fingerprint:3F0C00000001").fingerprint.as_deref(), Some("3f0c00000001"));
    assert_eq!(listed("unique:a").unique, Some(UniqueKey::new("a").unwrap()));
    for text in ["args.n=1", "error~x", "task!=mail", "node:a,b", "priority:1", "id:0189,018a"] {
        let search = search(text);
        assert!(search.looks_closer() && search.list.is_empty(), "{text}");
    }
    assert!(
        search("state:failed")
            .within(ListFilter { states: [JobState::Waiting].into(), ..ListFilter::default() })
            .is_impossible()
    );
    assert!(search("-state:waiting,scheduled,running,stuck,success,failed,cancelled").is_impossible());
    assert!(search("since:1h until:2h").is_impossible() && !search("since:2h until:1h").is_impossible());
}

#[test]
fn a_job_is_found_by_the_schedule_that_submitted_it() {
    let name = |text: &str| ScheduleName::new(text).unwrap();
    let at: Timestamp = "2030-01-31T02:00:00Z".parse().unwrap();
    let periodic = Periodic::new(When::every("1h").unwrap(), TaskName::new("report").unwrap(), Json::null(), at);
    let by_time = periodic.job(&name("nightly"), at, at).id;
    for id in [by_time, run_id(&name("nightly"), 1_896_000_000_123, [7; 5])] {
        let job = Job { id, ..job(ARGS) };
        let meets = |text: &str| filter(text).at(now()).admits(&job, &Secrets::default());
        assert!(meets("schedule:nightly") && meets("schedule:weekly,nightly") && meets("schedule!=weekly"), "{id}");
        assert!(!meets("schedule:weekly") && !meets("-schedule:nightly"), "{id}");
    }
    assert!(!meets("schedule:nightly"), "a job that none has submitted");
    assert!(refused("schedule>1").starts_with("at character 9: schedule is followed by : or !="));
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_was_expected() {
    for (text, expected) in [
        ("taks:mail", r#"at character 1: there is no field "taks"; did you mean "task"?"#),
        ("state:failed colour=red", r#"at character 14: there is no field "colour"; known are state, task"#),
        ("state:fialed", r#"at character 7: state: "fialed" is not one of waiting"#),
        ("timeout", r#"at character 1: "timeout" is not a condition; write FIELD:VALUE"#),
        ("ärger timeout", r#"at character 1: "ärger" is not a condition"#),
        ("group:ä task", "at character 13: one of : = != < <= > >= ~ was expected after task"),
        ("task:", "at character 6: a value was expected"),
        ("state:failed,", "at character 14: a value was expected"),
        ("task:,", "at character 6: a value was expected"),
        ("task>mail", "at character 5: task is followed by : or !="),
        ("task~mail", "at character 5: task is followed by : or !="),
        ("error:x", "at character 6: error is followed by ~"),
        ("priority~1", "at character 9: priority is followed by"),
        ("priority:11", "at character 10: priority: must be 1"),
        ("attempt>-1", "at character 9: attempt: must be a whole number"),
        ("attempt>99999999999999999999", "at character 9: attempt: must be a whole number"),
        ("task.name:x", "at character 5: task has no parts"),
        ("args.=1", "at character 6: a name was expected after the dot"),
        ("args..a=1", "at character 6: a name was expected after the dot"),
        (r#"error~"time out"#, "at character 7: this quotation mark has no other one"),
        (r#"error~"C:\new""#, "at character 10: between quotation marks"),
        (r#"error~"a"b"#, "at character 10: a space or a comma was expected"),
        (r#"error~a"b"#, "at character 8: a value with a quotation mark in it"),
        (r#"error~"""#, "at character 7: a text to look for was expected"),
        ("fingerprint:xyz", r#"at character 13: fingerprint: "xyz" has not the twelve"#),
        ("id:xyz", "at character 4: id: "),
        ("since:soon", r#"at character 7: "soon" is neither a time nor a duration"#),
        ("since:1h,2h", "at character 10: since takes one time"),
        ("since>1h", "at character 6: since is followed by : and a time"),
        ("- task:a", "at character 2: a field's name was expected"),
        (":a", "at character 1: a field's name was expected"),
        ("task:a\nqueue:b", "at character 7: a filter has no control characters"),
        (r#"queue:" a""#, "at character 7: queue: must not begin or end with white space"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    assert!(refused("state:fialed").ends_with(r#"; did you mean "failed"?"#));
}

#[test]
fn a_hostile_text_is_refused_or_cheap() {
    assert!(refused(&"x".repeat(200_000)).starts_with("at character 1001: a filter has at most 1000 characters"));
    assert!(refused(&format!("task:{}", "ä".repeat(500))).contains("bytes long"));
    let deep = format!("args{}=1", ".a".repeat(496));
    let nested = format!("{}1{}", r#"{"a":"#.repeat(64), "}".repeat(64));
    assert!(!filter(&deep).at(now()).admits(&job(&nested), &Secrets::default()));
    let digits = "9".repeat(900);
    assert!(!filter(&format!("args.pages>{digits}")).at(now()).admits(&job(ARGS), &Secrets::default()));
    assert!(filter("args.pages<1e999999999999").at(now()).admits(&job(ARGS), &Secrets::default()));
    let stars = format!("args~{}", "a*".repeat(490));
    let long = format!(r#"{{"a":"{}"}}"#, "a".repeat(200_000));
    assert!(filter(&stars).at(now()).admits(&job(&long), &Secrets::default()), "490 of 200,000");
    for text in ["error~(((", "error~[", "error~a{9999}", r#"error~"(?R)\\""#] {
        assert!(
            !filter(text).at(now()).admits(&job(ARGS), &Secrets::default()),
            "every text is one to look for: {text}"
        );
    }
}

#[test]
fn the_old_conditions_of_the_command_line_mean_what_they_meant() {
    let filter = filter("state=failed state=stuck task=mail queue=q group=g fingerprint=3f0c00000001");
    assert_eq!(filter.states(), Some(&[JobState::Stuck, JobState::Failed].into()));
    assert_eq!(filter.to_string(), "state:stuck,failed task:mail queue:q group:g fingerprint:3f0c00000001");
}

#[test]
fn a_filter_is_printed_as_it_is_read() {
    for (text, printed) in [
        ("  task=a   task=b ", "task:a,b"),
        (r#"queue:"a b","c\\\"d",e"#, r#"queue:"a b","c\\\"d",e"#),
        ("-task!=a", "task:a"),
        ("-args.x>1", "-args.x>1"),
        ("-args.x=1", "args.x!=1"),
        (r#"args."a.b"."":1,"1""#, r#"args."a.b".""=1,"1""#),
        ("since:90m until:2030-01-31T08:30:00+01:00", "since:90m until:2030-01-31T07:30:00.000000Z"),
        ("priority:high", "priority=3"),
        (r#"error~"a",b*c"#, "error~a,b*c"),
    ] {
        let read = filter(text);
        assert_eq!(read.to_string(), printed);
        assert_eq!(filter(printed), read);
    }
}

#[test]
fn names_and_values_are_suggested_where_a_person_writes() {
    let at = |text: &str| {
        let place = text.find('|').unwrap();
        let text = text.replace('|', "");
        let found = suggest(&text, place);
        (text[found.replaces].to_owned(), found.begun, found.wanted)
    };
    let wanted = |text: &str| at(text).2;
    assert_eq!(wanted("|"), Wanted::Field(FIELDS.to_vec()));
    assert_eq!(wanted("task:mail |"), Wanted::Field(FIELDS.to_vec()));
    assert_eq!(at("-st|"), ("st".into(), "st".into(), Wanted::Field(vec!["state"])));
    assert_eq!(at("st|xy:a"), ("stxy".into(), "st".into(), Wanted::Field(vec!["state"])));
    assert_eq!(wanted("task|"), Wanted::Sign(&[":", "!="]));
    assert_eq!(wanted("state:fa|"), Wanted::Value("state", vec!["failed"]));
    assert_eq!(at("state:failed,st|uck task:a").0, "stuck");
    assert_eq!(at("group!=ac|"), ("ac".into(), "ac".into(), Wanted::Value("group", vec![])));
    assert_eq!(at(r#"group:"a c|me" x"#), (r#""a cme""#.into(), "a c".into(), Wanted::Value("group", vec![])));
    assert_eq!(at("args.cust|omer.x"), (".customer.x".into(), ".cust".into(), Wanted::Path("args")));
    assert_eq!(wanted(r#"args."a b".c>|"#), Wanted::Value("args", vec![]));
    assert_eq!(wanted("nonsense:|"), Wanted::Field(vec![]));
    assert_eq!(suggest("ä", 1).replaces, 0..2, "a place within a character is before it");
    assert_eq!(suggest("task", 99).wanted, Wanted::Sign(&[":", "!="]));
}

#[tokio::test]
async fn a_search_looks_at_a_bounded_number_of_jobs_and_says_how_far_it_came() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    turnwise.submit(JobRequest::new("t", &serde_json::json!({"n": -1}))).await.unwrap();
    for _ in 0..3 {
        turnwise.submit_all((0..7_000).map(|n| JobRequest::new("t", &serde_json::json!({"n": n})))).await.unwrap();
    }
    let filter = filter("task:t args.n<0");
    let (mut cursor, mut requests) = (None, 0);
    let found = loop {
        let mut search = filter.at(turnwise.now().await.unwrap());
        let page = turnwise.search(&mut search, cursor, 10).await.unwrap();
        requests += 1;
        let Some(next) = page.next else { break page.jobs };
        assert!(page.jobs.is_empty() && page.reached == Some(next.reached()), "{page:?}");
        let again = turnwise.search(&mut search, Some(next), 10).await.unwrap();
        assert_eq!((again.jobs.len(), again.next), (0, Some(next)), "one search is one request");
        cursor = Some(next);
    };
    assert_eq!((found.len(), requests), (1, 3), "10,000 unfinished jobs each");
}

#[tokio::test]
async fn pages_of_a_search_hold_each_job_once_whatever_their_length() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let jobs = (0..500).map(|n| JobRequest::new("t", &serde_json::json!({"n": n})).group(format!("g{}", n % 3)));
    turnwise.submit_all(jobs).await.unwrap();
    let all = turnwise.list(AskJobs { limit: 1_000, ..AskJobs::default() }).await.unwrap().jobs;
    let number =
        |job: &Job| serde_json::from_str::<serde_json::Value>(job.args.as_str()).unwrap()["n"].as_i64().unwrap();
    let wanted: Vec<JobId> =
        all.iter().filter(|job| number(job) >= 250 && job.group.as_str() != "g0").map(|job| job.id).collect();
    for limit in [1, 7, 100, 1_000] {
        let (mut cursor, mut found) = (None, Vec::new());
        loop {
            let mut search = filter("args.n>=250 -group:g0").at(now());
            let page = turnwise.search(&mut search, cursor, limit).await.unwrap();
            found.extend(page.jobs.iter().map(|job| job.id));
            assert!(page.jobs.len() <= limit as usize);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, wanted, "{limit} a page");
    }
    let newest = wanted[0];
    let mut by_id = filter(&format!("id:{newest}")).at(now());
    let page = turnwise.search(&mut by_id, None, 10).await.unwrap();
    assert_eq!((page.jobs.len(), page.jobs[0].id, page.next), (1, newest, None));
    let mut closer = filter(&format!("id:{} args.n>=0", all[499].id)).at(now());
    let page = turnwise.search(&mut closer, None, 10).await.unwrap();
    assert_eq!((page.jobs.len(), page.next), (1, None), "nothing below it is looked at");
}

/// Texts that are often filters.
fn likely() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        proptest::sample::select(FIELDS.to_vec()).prop_map(str::to_owned),
        "args(\\.([a-z0-9]{1,3}|\"[a. é]{0,3}\")){1,4}",
        "[a-z]{1,5}",
    ];
    let sign = proptest::sample::select(vec![":", "=", "!=", ">", ">=", "<", "<=", "~", ""]);
    let value = prop_oneof![
        proptest::sample::select(JobState::ALL.map(JobState::name).to_vec()).prop_map(str::to_owned),
        proptest::sample::select(vec![
            "2h",
            "1h30m",
            "0s",
            "2030-01-31T08:30:00Z",
            "3f0c00000001",
            "0189",
            "5",
            "1e400",
            "-0.5"
        ])
        .prop_map(str::to_owned),
        "[a-z*\\\\é=:<-]{1,4}",
        "\"([a-z ,*é=]|\\\\\"|\\\\\\\\){0,5}\"",
    ];
    let condition = ("-?", field, sign, proptest::collection::vec(value, 1..3));
    let condition = condition.prop_map(|(not, field, sign, values)| format!("{not}{field}{sign}{}", values.join(",")));
    proptest::collection::vec(condition, 0..4).prop_map(|all| all.join(" "))
}

proptest! {
    #[test]
    fn every_text_is_read_or_refused_at_a_place_within_it(text in prop_oneof![".*", "[a-z.:=!<>~\", \\\\*-]{0,40}", likely()]) {
        match text.parse::<JobFilter>() {
            Ok(read) => {
                let printed = read.to_string();
                let again = printed.parse::<JobFilter>();
                prop_assert_eq!(again.as_ref(), Ok(&read), "{}", printed);
                let _ = read.at(now()).admits(&job(ARGS), &Secrets::default());
            }
            Err(error) => {
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at), "{:?}", error);
                prop_assert_eq!(error.character, text[..error.at].chars().count() + 1);
            }
        }
    }

    #[test]
    fn every_place_of_every_text_has_its_suggestion(text in prop_oneof![".*", likely()], place in 0_usize..60) {
        let found = suggest(&text, place);
        prop_assert!(text.get(found.replaces.clone()).is_some(), "{:?}", found);
        prop_assert!(found.replaces.end <= text.len());
    }
}

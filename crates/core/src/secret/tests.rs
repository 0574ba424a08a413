use proptest::prelude::*;

use super::*;

fn task(name: &str) -> TaskName {
    TaskName::new(name).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse("args", text).unwrap()
}

fn mask(fields: &[&str], args: &str) -> Mask {
    Mask::new(&pointers(fields).unwrap(), &json(args))
}

fn shown(fields: &[&str], args: &str) -> String {
    mask(fields, args).shown(&json(args)).to_string()
}

#[test]
fn a_secret_field_is_replaced_and_the_rest_stays_to_the_letter() {
    let args = r#"{"b":1.50, "card":{"number":"4111","cvc": 737},"c":"\u00e9"}"#;
    assert_eq!(shown(&["/card/number"], args), args.replace("\"4111\"", "\"[secret]\""));
    assert_eq!(shown(&["/card"], args), r#"{"b":1.50, "card":"[secret]","c":"\u00e9"}"#);
    assert_eq!(shown(&["/card", "/card/cvc"], args), shown(&["/card"], args), "one within another");
    assert_eq!(shown(&[""], args), r#""[secret]""#);
    assert_eq!(shown(&["/cards", "/card/number/x", "/b/0"], args), args, "what is not there");
}

#[test]
fn a_place_is_found_in_arrays_and_under_strange_names_and_twice() {
    assert_eq!(shown(&["/keys/1"], r#"{"keys":["a","b","c"]}"#), r#"{"keys":["a","[secret]","c"]}"#);
    assert_eq!(shown(&["/keys/-", "/keys/7"], r#"{"keys":["a"]}"#), r#"{"keys":["a"]}"#);
    assert_eq!(shown(&["/a~1b/m~0n"], r#"{"a/b":{"m~n":1}}"#), r#"{"a/b":{"m~n":"[secret]"}}"#);
    assert_eq!(shown(&["/é"], r#"{"\u00e9":1,"é":2}"#), r#"{"\u00e9":"[secret]","é":"[secret]"}"#);
    assert_eq!(shown(&["/k"], r#"{"k":null}"#), r#"{"k":"[secret]"}"#, "that it is not set is not shown either");
}

#[test]
fn a_value_is_hidden_wherever_it_is_repeated() {
    let mask = mask(&["/key", "/pin"], r#"{"key":"s\"3\"cr\\et\nsecond line","pin":73912}"#);
    for (text, expected) in [
        ("login with s\"3\"cr\\et\nsecond line failed", "login with [secret] failed"),
        (
            r#"invalid type: string "s\"3\"cr\\et\nsecond line", expected u64"#,
            r#"invalid type: string "[secret]", expected u64"#,
        ),
        ("the key ends: second line", "the key ends: [secret]"),
        ("pin 73912 is wrong, 739123 too", "pin [secret] is wrong, [secret]3 too"),
        ("nothing of it", "nothing of it"),
    ] {
        assert_eq!(mask.text(text), expected);
    }
    let result = json(r#"{"pin":73912,"was":[739120,"got 73912"],"73912":true}"#);
    assert_eq!(mask.json(&result).as_str(), r#"{"pin":"[secret]","was":[739120,"got [secret]"],"[secret]":true}"#);
    let plain = json(r#"{ "a" : 1.50 }"#);
    assert_eq!(*mask.json(&plain), plain, "what has none of it stays to the letter");
}

#[test]
fn values_within_one_another_are_hidden_as_one() {
    let mask = mask(&["/a", "/b"], r#"{"a":"secret","b":"my secret word"}"#);
    assert_eq!(mask.text("it was my secret word, a secret"), "it was [secret], a [secret]");
}

#[test]
fn an_error_keeps_its_causes_and_place_without_the_secret() {
    let mask = mask(&["/key"], r#"{"key":"hunter2-and-more"}"#);
    let failure =
        Failure { chain: vec!["no hunter2-and-more".into(), "refused".into()], place: None }.at("src/x.rs:1:1");
    let failure = mask.failure(failure);
    assert_eq!(failure.chain, ["no [secret]", "refused"]);
    assert_eq!(failure.place.as_deref(), Some("src/x.rs:1:1"));
    let cut = Failure::new(format!("{}hunter2-and-more", "x".repeat(MAX_ERROR_BYTES - 7)));
    assert!(cut.text().ends_with("hunter2"), "the end is cut off");
    assert!(mask.failure(cut).chain[0].ends_with("xxx[secret]"));
}

#[test]
fn short_values_and_words_are_left_in_texts() {
    let mask = mask(&["/a", "/b", "/c"], r#"{"a":"no","b":true,"c":null}"#);
    assert_eq!(mask.text("no, that is not true; it is null"), "no, that is not true; it is null");
}

#[test]
fn of_too_many_values_no_text_is_shown() {
    let values: Vec<_> = (0..=MAX_VALUES).map(|n| format!("\"value {n:04}\"")).collect();
    let mask = mask(&[""], &format!("[{}]", values.join(",")));
    assert_eq!(mask.text("anything"), MASKED);
    assert_eq!(mask.failure(Failure::new("anything")).chain, [MASKED]);
    assert_eq!(mask.progress(Progress::new(1, 2, "anything")).text, MASKED);
    assert_eq!(mask.json(&json(r#"["a",7]"#)).as_str(), r#"["[secret]",7]"#);
}

#[test]
fn of_a_job_whose_arguments_were_not_read_no_text_is_shown() {
    let mut secrets = Secrets::default();
    secrets.add(TaskName::new("pay").unwrap(), Pointer::new("/card").unwrap());
    let (pay, noop) = (TaskName::new("pay").unwrap(), TaskName::new("noop").unwrap());
    assert_eq!(secrets.mask_unread(&pay).text("card 4711"), MASKED);
    assert_eq!(secrets.mask_unread(&pay).json(&json("[7]")).as_str(), format!("\"{MASKED}\""));
    assert_eq!(secrets.mask_unread(&noop).text("3 of 7"), "3 of 7");
}

#[test]
fn a_mask_does_not_print_what_it_hides() {
    assert!(!format!("{:?}", mask(&["/key"], r#"{"key":"hunter2"}"#)).contains("hunter2"));
}

#[test]
fn a_job_that_goes_on_with_the_same_arguments_keeps_its_secrets() {
    let mut secrets = Secrets::default();
    secrets.add(task("charge"), Pointer::new("/card").unwrap());
    let (refund, charge) = (task("refund"), task("charge"));
    let carried = secrets.carried_on(|task| match task.as_str() {
        "charge" => Some(&refund),
        "refund" => Some(&charge),
        _ => None,
    });
    assert_eq!(carried.iter().map(|(task, _)| task.as_str()).collect::<Vec<_>>(), ["charge", "refund"]);
    let args = json(r#"{"card":4111}"#);
    assert_eq!(carried.mask(&refund, &args).shown(&args).as_str(), r#"{"card":"[secret]"}"#);
    assert!(carried.mask(&task("mail"), &args).is_empty());
}

#[test]
fn what_is_no_pointer_is_refused_with_its_text() {
    for text in ["card", "card/number", "#/card", "/a~2", "/a~", "/a\nb"] {
        let refusal = Pointer::new(text).unwrap_err().to_string();
        assert!(refusal.starts_with("secret: "), "{refusal}");
    }
    assert!(Pointer::new(format!("/{}", "x".repeat(MAX_POINTER_BYTES))).is_err());
    assert!(pointers((0..=MAX_POINTERS).map(|n| format!("/{n}"))).is_err());
}

#[test]
fn a_password_is_not_shown() {
    for (url, shown) in [
        ("sqlite:turnwise.db", "sqlite:turnwise.db"),
        ("postgres://ann:s3cret@db/jobs", "postgres://ann@db/jobs"),
        ("postgres://ann:s3@cret@db/jobs", "postgres://ann@db/jobs"),
        ("postgres://db/jobs?user=ann&password=s3cret", "postgres://db/jobs?user=ann"),
        ("postgres://ann@db:5432/jobs", "postgres://ann@db:5432/jobs"),
        ("host=db user=ann password=s3cret dbname=jobs", "host=db user=ann dbname=jobs"),
    ] {
        assert_eq!(without_password(url), shown);
    }
}

proptest! {
    #[test]
    fn no_text_shows_a_value_and_what_is_shown_is_json(
        secret in "[a-z\\\\\"\n é0-9]{3,12}",
        before in "[a-z\\\\\" é0-9]{0,12}",
        after in "[a-z\\\\\" é0-9]{0,12}",
    ) {
        let args = serde_json::json!({"x": {"y": secret}, "z": before}).to_string();
        let mask = mask(&["/x/y"], &args);
        let shown = mask.shown(&json(&args)).to_string();
        prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&shown).unwrap()["x"]["y"], MASKED);
        let masked_once = mask.text(&format!("{before}{secret}{after}")).into_owned();
        let outside = masked_once.replace(MASKED, "\u{0}");
        prop_assert!(!outside.contains(&secret), "{:?} in {:?}", secret, masked_once);
        let result = serde_json::json!([{"r": format!("{before}{secret}{after}")}]).to_string();
        let result = mask.json(&json(&result)).to_string();
        let value: serde_json::Value = serde_json::from_str(&result).unwrap();
        let outside = value[0]["r"].as_str().unwrap().replace(MASKED, "\u{0}");
        prop_assert!(!outside.contains(&secret));
    }
}

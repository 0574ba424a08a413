//! Submitting: one job from the command line, or many from stdin, all or none.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read},
};

use turnwise::{Duplicate, Invalid, JobId, JobRequest, wire};

use crate::{
    args,
    error::{Failure, remark},
    print,
    serve::block_on,
    settings::Settings,
};

/// Longest line of stdin: room for the largest arguments and then some, so that a file without line breaks is refused
/// before it fills the memory.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(crate) fn enqueue(settings: &Settings, wish: &args::Enqueue) -> Result<(), Failure> {
    // All input is read before the database is touched: what is refused leaves no trace.
    let requests = if wish.stdin {
        read_lines(io::stdin().lock())?
    } else {
        let written = typed(wish);
        let after = written.after.iter().map(|id| id.parse()).collect::<Result<Vec<JobId>, _>>();
        vec![written.to_request()?.after_jobs(after.map_err(|invalid| Invalid::new("after", invalid.to_string()))?)]
    };
    let enqueued = block_on(async { Ok(settings.open_lasting().await?.submit_each(requests).await?) })?;
    for (id, duplicate) in enqueued.iter().filter_map(|reply| Some((reply.id, reply.duplicate?))) {
        remark(&match duplicate {
            Duplicate::Kept => format!("job {id} holds the unique key; nothing was added"),
            Duplicate::Replaced => format!("job {id} holds the unique key; its arguments were replaced"),
            Duplicate::TooLate => format!("job {id} holds the unique key and has begun; it keeps its arguments"),
            Duplicate::OtherTask => {
                format!("job {id} of another task holds the unique key; it keeps its arguments")
            }
        });
    }
    Ok(print::lines(enqueued.iter().map(|reply| reply.id))?)
}

fn typed(wish: &args::Enqueue) -> wire::Request<'_> {
    let text = |value: &'_ Option<String>| value.clone().map(Cow::Owned);
    wire::Request {
        task: text(&wish.task),
        args: wish.args.as_deref(),
        queue: text(&wish.queue),
        group: text(&wish.group),
        key: text(&wish.key),
        priority: text(&wish.priority),
        at: text(&wish.at),
        r#in: text(&wish.r#in),
        retry: text(&wish.retry),
        timeout: text(&wish.timeout),
        expires: text(&wish.expires),
        unique: text(&wish.unique),
        unique_by_args: wish.unique_by_args,
        unique_scope: text(&wish.unique_scope),
        unique_for: text(&wish.unique_for),
        on_duplicate: text(&wish.on_duplicate),
        r#as: None,
        after: wish.after.clone(),
        on_failure: text(&wish.on_failure),
    }
}

/// One JSON object a line; empty lines are skipped. The error names the line.
fn read_lines(mut input: impl BufRead) -> Result<Vec<JobRequest>, Failure> {
    let wrong = |number: u64, problem: String| Failure::Input(format!("line {number}: {problem}"));
    let (mut batch, mut numbers) = (wire::Batch::default(), Vec::new());
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        // One byte more than allowed, to tell a line of exactly the limit from a longer one.
        let limit = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let length = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if length.map_err(|error| Failure::Other(format!("reading stdin: {error}")))? == 0 {
            break;
        }
        if let Some(request) = read_line(&line).map_err(|problem| wrong(number, problem))? {
            batch.push(&request).map_err(|invalid| wrong(number, invalid.to_string()))?;
            numbers.push(number);
        }
    }
    batch.link().map_err(|misfit| wrong(numbers.get(misfit.at).copied().unwrap_or_default(), misfit.problem))
}

fn read_line(line: &[u8]) -> Result<Option<wire::Request<'_>>, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("args: the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    let line =
        std::str::from_utf8(line).map_err(|error| format!("is not UTF-8 from byte {}", error.valid_up_to() + 1))?;
    if line.trim().is_empty() {
        return Ok(None);
    }
    wire::Request::read(line).map(Some).map_err(|unreadable| unreadable.to_string())
}

#[cfg(test)]
mod tests {
    use turnwise::Timestamp;

    use super::*;

    fn refusal(lines: &str) -> String {
        match read_lines(lines.as_bytes()) {
            Err(Failure::Input(text)) => text,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn a_line_says_all_that_a_command_can() {
        let line = r#"{"task":"t","args":{"b":1.50,"a":[ ]},"queue":"q","group":"g","key":"k","priority":"low","at":"2030-01-31T08:30:00Z","retry":"durations:1s,2s"}"#;
        let mut requests = read_lines(format!("\n{line}\n \r\n{line}").as_bytes()).unwrap();
        assert_eq!(requests.len(), 2);
        let job = requests.remove(0).into_job(Timestamp::MIN).unwrap();
        assert_eq!(job.args.as_str(), r#"{"b":1.50,"a":[ ]}"#);
        assert_eq!((job.task.as_str(), job.queue.as_str(), job.group.as_str()), ("t", "q", "g"));
        assert_eq!(job.key.as_ref().map(|key| key.as_str()), Some("k"));
        assert_eq!((job.priority.get(), job.retry.to_string().as_str()), (8, "durations:1s,2s"));
        assert_eq!(job.due.unwrap().to_string(), "2030-01-31T08:30:00.000000Z");
    }

    #[test]
    fn lines_name_one_another_and_a_star_is_all_others() {
        let lines = r#"{"task":"join","after":["a","b"],"on_failure":"run"}
            {"task":"t","as":"a"}
            {"task":"t","as":"b","after":"a"}
            {"task":"end","after":"*"}"#;
        let jobs: Vec<_> = read_lines(lines.as_bytes())
            .unwrap()
            .into_iter()
            .map(|job| job.into_job(Timestamp::MIN).unwrap())
            .collect();
        let ids = |of: &[usize]| {
            let mut ids: Vec<_> = of.iter().map(|&at| jobs[at].id).collect();
            ids.sort_unstable();
            ids
        };
        let after: Vec<_> = jobs.iter().map(|job| job.after.ids().to_vec()).collect();
        assert_eq!(after, [ids(&[1, 2]), ids(&[]), ids(&[1]), ids(&[0, 1, 2])]);
        assert_eq!(jobs[0].after.on_failure().map(|what| what.name()), Some("run"));
        for (line, told) in [
            (
                r#"{"task":"t","after":["c"]}"#,
                r#"line 1: after: "c" is neither a job id nor the name (as) of another one"#,
            ),
            (r#"{"task":"t","after":[7]}"#, "line 1: after: must be an array of texts, not [7]"),
            (r#"{"task":"t","as":"*"}"#, r#"line 1: as: "*" means something else in after"#),
            (
                "{\"task\":\"t\",\"as\":\"a\"}\n{\"task\":\"t\",\"as\":\"a\"}",
                "line 2: as: \"a\" is the name of another one already",
            ),
            (r#"{"task":"t","on_failure":"run"}"#, "line 1: on_failure: is of no use without after"),
            (r#"{"task":"t","after":"*","on_failure":"go"}"#, "line 1: on_failure: must be fail, run or cancel"),
        ] {
            let text = refusal(line);
            assert!(text.starts_with(told), "{line}: {text}");
        }
    }

    #[test]
    fn names_left_out_or_null_are_the_defaults() {
        let requests = read_lines(&br#"{"task":"t","args":null,"priority":null,"in":null}"#[..]).unwrap();
        let job = requests[0].clone().into_job(Timestamp::MIN).unwrap();
        assert_eq!((job.args.as_str(), job.priority.get(), job.queue.as_str()), ("null", 5, "default"));
        assert_eq!((job.retry.to_string().as_str(), job.key), ("exponential:10s,5", None));
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_number_and_its_field() {
        let good = r#"{"task":"t"}"#;
        for (line, told) in [
            (r#"{"task":"t","priority":11}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":1.5}"#, "priority: must be 1"),
            (r#"{"task":"t","priority":true}"#, "priority: must be 1"),
            (r#"{"task":"t","at":"tomorrow"}"#, "at: "),
            (r#"{"task":"t","at":5}"#, "at: must be a text, not 5"),
            (r#"{"task":"t","in":"10"}"#, "in: "),
            (r#"{"task":"t","in":"1s","at":"2030-01-31T08:30:00Z"}"#, "in: cannot be given together with at"),
            (r#"{"task":"t","retry":"often"}"#, "retry: "),
            (r#"{"task":"t","timeout":"0s"}"#, "timeout: must be longer than nothing"),
            (r#"{"task":"t","expires":"soon"}"#, "expires: "),
            (r#"{"task":"t","unique":""}"#, "unique: must not be empty"),
            (r#"{"task":"t","unique":"k","unique_by_args":true}"#, "unique_by_args: cannot be given together"),
            (r#"{"task":"t","unique_by_args":1}"#, "unique_by_args: must be true or false, not 1"),
            (r#"{"task":"t","unique":"k","unique_for":"soon"}"#, "unique_for: "),
            (r#"{"task":"t","unique":"k","unique_scope":""}"#, "unique_scope: must not be empty"),
            (
                r#"{"task":"t","unique":"k","on_duplicate":"drop"}"#,
                "on_duplicate: must be keep, reject or replace-args",
            ),
            (r#"{"task":"t","unique_for":"1m"}"#, "unique: is missing"),
            (r#"{"task":"t","args":{]}"#, "args: "),
            (r#"{"task":"t","args":"\u0000"}"#, "args: must not contain a NUL"),
            (r#"{"task":"t\u0000"}"#, "task: must not contain a NUL"),
            (r#"{"task":""}"#, "task: must not be empty"),
            (r#"{"args":{}}"#, "task: is missing"),
            (r#"{"task":"t","group":"a\nb"}"#, "group: must not contain control"),
            (r#"{"task":"t","key":""}"#, "key: must not be empty"),
            (r#"{"task":"t","key":7}"#, "key: must be a text, not 7"),
            (r#"{"task":"t","task":"u"}"#, "task: is given twice"),
            (r#"{"task":"t","prio":1}"#, "unknown name \"prio\""),
            (r#"{"task":"t"} {}"#, "trailing"),
            (r#"{"task":"t""#, "EOF"),
            ("[]", "invalid type: sequence, expected a JSON object"),
            ("nonsense", "expected"),
        ] {
            let text = refusal(&format!("{good}\n\n{line}\n{good}\n"));
            assert!(text.starts_with(&format!("line 3: {told}")) && !text.contains('\n'), "{line}: {text}");
        }
        assert!(
            matches!(read_lines(&b"{\"task\":\"\xff\"}"[..]), Err(Failure::Input(text)) if text == "line 1: is not UTF-8 from byte 10")
        );
    }

    #[test]
    fn large_and_deep_arguments_are_refused() {
        let with = |args: String| refusal(&format!(r#"{{"task":"t","args":{args}}}"#));
        assert!(with(format!("\"{}\"", "x".repeat(1024 * 1024))).starts_with("line 1: args: is 1048578 bytes long"));
        assert!(with("[".repeat(100_000) + &"]".repeat(100_000)).starts_with("line 1: args: is nested deeper"));
        assert!(with("\"".to_owned() + &"x".repeat(MAX_LINE_BYTES)).starts_with("line 1: args: the line is longer"));
    }
}

//! Tasks that are another program's HTTP endpoint: `[tasks.NAME] url = "…"` in `turnwise.toml`.
//!
//! A job is posted, signed as Standard Webhooks say, and the status of the answer says what becomes of it ([`judge`]).

use std::{fs, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turnwise::{AnyTask, Ctx, Invalid, Json, Outcome, Policies, TaskName};
use turnwise_client::{Hook, Said};
use turnwise_core::{Failure, json::MAX_JSON_BYTES, lifecycle, time::parse_span};

/// Unless the file says how long a run may take: an endpoint that never answers would hold its slot for ever.
const TIMEOUT: Duration = Duration::from_secs(60);
/// As long as an endpoint may ask to be left alone, and as often for one job.
const LONGEST_SNOOZE: Duration = Duration::from_secs(60 * 60);
const MOST_SNOOZES: i64 = 20;
/// What of an answer that is no success is kept in the error.
const QUOTED: usize = 200;
/// Two: the new secret and, while receivers still use it, the old one.
const MOST_SECRETS: usize = 2;
/// Bytes of a secret, as Standard Webhooks have them.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Such a task as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    url: String,
    #[serde(default)]
    sign_env: Vec<String>,
    #[serde(default)]
    sign_files: Vec<PathBuf>,
    ca: Option<PathBuf>,
    proxy: Option<String>,
    private_addresses: Option<bool>,
    timeout: Option<String>,
    retry: Option<String>,
    pub(crate) next: Option<String>,
    pub(crate) on_exhausted: Option<String>,
    #[serde(default)]
    secret: Vec<String>,
}

/// What is posted.
#[derive(Serialize)]
struct Posted<'a> {
    id: String,
    task: &'a str,
    attempt: u32,
    fence: i64,
    queue: &'a str,
    group: &'a str,
    args: &'a RawValue,
}

struct HttpTask {
    hook: Hook,
    secrets: Vec<Vec<u8>>,
    next: Option<TaskName>,
}

impl Written {
    pub(crate) fn task(self, name: &str) -> Result<AnyTask, Invalid> {
        let private = self.private_addresses.unwrap_or(true);
        let hook = Hook::new(&self.url, self.ca.as_deref(), self.proxy.as_deref(), private)?;
        if self.proxy.is_some() && !private {
            let problem = "has no effect behind a proxy, which finds the address itself";
            return Err(Invalid::new("private_addresses", problem));
        }
        let secrets = secrets(&self.sign_env, &self.sign_files)?;
        let named = |field, task: Option<String>| {
            task.map(TaskName::new).transpose().map_err(|invalid| Invalid::new(field, invalid.problem))
        };
        let next = named("next", self.next)?;
        let policies = Policies::read(self.retry.as_deref(), None, None)?;
        let mut policies = policies.secret(self.secret)?;
        let timeout = self.timeout.map(|timeout| parse_span("timeout", &timeout)).transpose()?;
        policies.timeout = Some(timeout.unwrap_or(TIMEOUT));
        policies.on_exhausted = named("on_exhausted", self.on_exhausted)?;
        let task = Arc::new(HttpTask { hook, secrets, next: next.clone() });
        let run = move |ctx: Ctx, args: &Json| -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
            let (task, args) = (task.clone(), args.clone());
            Box::pin(async move { task.run(&ctx, &args).await })
        };
        Ok(AnyTask::from_fn(name, run).with_policies(policies).followed_by(next))
    }
}

impl HttpTask {
    async fn run(&self, ctx: &Ctx, args: &Json) -> Outcome {
        let outcome = tokio::select! {
            biased;
            // The request is cut off: the endpoint may have done its work, or notice that it is not waited for.
            () = ctx.cancelled() => return Outcome::cancelled(),
            posted = self.post(ctx, args) => posted,
        };
        outcome.then(self.next.as_ref(), args).into()
    }

    async fn post(&self, ctx: &Ctx, args: &Json) -> lifecycle::Outcome {
        let error = |text: String| lifecycle::Outcome::Error(Failure::new(text));
        let posted = Posted {
            id: ctx.id().to_string(),
            task: ctx.task(),
            attempt: ctx.attempt(),
            fence: ctx.fence().0,
            queue: ctx.queue().as_str(),
            group: ctx.group().as_str(),
            args: serde_json::from_str(args.as_str()).expect("arguments are JSON"),
        };
        let body = match serde_json::to_vec(&posted) {
            Ok(body) => Bytes::from(body),
            Err(failed) => return error(format!("the request cannot be written: {failed}")),
        };
        let headers = self.headers(ctx, &body);
        match self.hook.post(&headers, body, MAX_JSON_BYTES).await {
            Ok(said) => judge(self.hook.authority(), &said, ctx.fence().assignments() - i64::from(ctx.attempt())),
            Err(problem) => error(format!("{}: {problem}", self.hook.authority())),
        }
    }

    fn headers(&self, ctx: &Ctx, body: &[u8]) -> Vec<(&'static str, String)> {
        let id = message_id(&ctx.id().to_string(), ctx.task());
        let seconds = ctx.now().micros().div_euclid(1_000_000).to_string();
        let mut headers = vec![("webhook-id", id.clone()), ("webhook-timestamp", seconds.clone())];
        if !self.secrets.is_empty() {
            let signatures: Vec<String> =
                self.secrets.iter().map(|secret| signature(secret, &id, &seconds, body)).collect();
            headers.push(("webhook-signature", signatures.join(" ")));
        }
        if let Some(trace) = ctx.trace() {
            headers.push(("traceparent", trace.traceparent().to_owned()));
            headers.extend(trace.tracestate().map(|state| ("tracestate", state.to_owned())));
        }
        headers
    }
}

/// The same for every try, so that a receiver can recognise one that it has done. A job that goes on as another task is another message.
fn message_id(job: &str, task: &str) -> String {
    let of_task: String = Sha256::digest(task).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{job}-{of_task}")
}

fn signature(secret: &[u8], id: &str, seconds: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    for part in [id.as_bytes(), b".", seconds.as_bytes(), b".", body] {
        mac.update(part);
    }
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

fn secrets(variables: &[String], files: &[PathBuf]) -> Result<Vec<Vec<u8>>, Invalid> {
    if variables.len() + files.len() > MOST_SECRETS {
        let problem = format!("at most {MOST_SECRETS} secrets sign: the new one and the old one");
        return Err(Invalid::new(if files.is_empty() { "sign_env" } else { "sign_files" }, problem));
    }
    let of_env = variables.iter().map(|name| {
        let found = std::env::var(name);
        found
            .map(|text| ("sign_env", name.clone(), text))
            .map_err(|_| Invalid::new("sign_env", format!("the variable {name} is not set, or is not text")))
    });
    let of_files = files.iter().map(|path| {
        let shown = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Ok(("sign_files", shown, text)),
            Err(error) => Err(Invalid::new("sign_files", format!("{shown}: {error}"))),
        }
    });
    of_env.chain(of_files).map(|found| found.and_then(|(field, from, text)| secret(field, &from, &text))).collect()
}

/// What is wrong with a secret is said without it.
fn secret(field: &'static str, from: &str, text: &str) -> Result<Vec<u8>, Invalid> {
    let form = "must be whsec_ and 24 to 64 bytes in Base64; make one with: echo whsec_$(openssl rand -base64 32)";
    let decoded = text.trim().strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    match decoded {
        Some(secret) if SECRET_BYTES.contains(&secret.len()) => Ok(secret),
        _ => Err(Invalid::new(field, format!("{from}: {form}"))),
    }
}

/// What an answer makes of the job. `snoozed`: how often it was put off already.
fn judge(authority: &str, said: &Said, snoozed: i64) -> lifecycle::Outcome {
    let failure = || Failure { chain: chain(authority, said), place: None };
    match said.status {
        200..=299 => match result(said) {
            Ok(result) => lifecycle::Outcome::Done { result },
            Err(problem) => lifecycle::Outcome::Fail(Failure::new(format!("{authority}: {problem}"))),
        },
        429 | 503 => match said.retry_after {
            Some(wait) if snoozed < MOST_SNOOZES => lifecycle::Outcome::Snooze { wait: wait.min(LONGEST_SNOOZE) },
            _ => lifecycle::Outcome::Error(failure()),
        },
        // What was sent is not wanted: another try would fare no better.
        300..=399 | 400 | 410 | 413 | 422 => lifecycle::Outcome::Fail(failure()),
        _ => lifecycle::Outcome::Error(failure()),
    }
}

fn chain(authority: &str, said: &Said) -> Vec<String> {
    let redirect = if said.is_redirect() { ", a redirect, which is not followed" } else { "" };
    let text = said.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let quoted: String = text.trim().chars().take(QUOTED).collect::<String>().replace('\0', "\u{fffd}");
    let first = format!("{authority} answered with status {}{redirect}", said.status);
    std::iter::once(first).chain((!quoted.is_empty()).then_some(quoted)).collect()
}

/// JSON where the answer says so, a text otherwise, nothing if it is empty.
fn result(said: &Said) -> Result<Option<Json>, String> {
    let Some(body) = &said.body else { return Err(format!("its answer is longer than {MAX_JSON_BYTES} bytes")) };
    let text = String::from_utf8_lossy(body);
    let result = if text.trim().is_empty() {
        return Ok(None);
    } else if said.json {
        Json::parse("result", text.trim())
    } else {
        Json::encode("result", &text.replace('\0', "\u{fffd}"))
    };
    result.map(|json| Some(json).filter(|json| *json != Json::null())).map_err(|invalid| invalid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> Said {
        Said { status, retry_after: None, json: false, body: Some(Bytes::from(body.to_owned())) }
    }

    #[test]
    fn a_signature_is_that_of_the_standards_own_example() {
        let secret = secret("sign_env", "X", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn the_status_of_the_answer_says_what_becomes_of_the_job() {
        use lifecycle::Outcome::{Done, Error, Fail, Snooze};
        for status in [200, 201, 204, 299] {
            assert!(matches!(judge("h", &said(status, ""), 0), Done { result: None }), "{status}");
        }
        for status in [301, 302, 307, 400, 410, 413, 422] {
            assert!(matches!(judge("h", &said(status, ""), 0), Fail(_)), "{status}");
        }
        for status in [401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(judge("h", &said(status, ""), 0), Error(_)), "{status}");
        }
        for status in [429, 503] {
            let wait = |seconds| Said { retry_after: Some(Duration::from_secs(seconds)), ..said(status, "") };
            assert_eq!(judge("h", &wait(30), 19), Snooze { wait: Duration::from_secs(30) });
            assert_eq!(judge("h", &wait(100_000), 0), Snooze { wait: LONGEST_SNOOZE });
            assert!(matches!(judge("h", &wait(30), 20), Error(_)), "not for ever");
        }
        let Fail(failure) = judge("h:1", &said(302, " elsewhere\n"), 0) else { panic!("a redirect is not followed") };
        assert_eq!(failure.text(), "h:1 answered with status 302, a redirect, which is not followed: elsewhere");
    }

    #[test]
    fn a_result_is_json_where_the_answer_says_so_and_a_text_elsewhere() {
        let json = |body: &str| Said { json: true, ..said(200, body) };
        let shown = |said: &Said| result(said).map(|result| result.map(|json| json.as_str().to_owned()));
        assert_eq!(shown(&json(r#" {"pages": 1.50} "#)), Ok(Some(r#"{"pages": 1.50}"#.to_owned())));
        assert_eq!(shown(&said(200, r#"{"pages": 3}"#)), Ok(Some(r#""{\"pages\": 3}""#.to_owned())));
        assert_eq!(shown(&json("")), Ok(None));
        assert!(shown(&json("{")).unwrap_err().starts_with("result: "));
        let long = Said { body: None, ..said(200, "") };
        assert_eq!(shown(&long).unwrap_err(), "its answer is longer than 1048576 bytes");
    }

    #[test]
    fn a_try_again_is_the_same_message_and_another_task_is_another() {
        assert_eq!(message_id("7", "invoice"), message_id("7", "invoice"));
        assert_ne!(message_id("7", "invoice"), message_id("7", "mail"));
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_without_it() {
        for text in ["", "s3cret", "whsec_s3cret", "whsec_c2hvcnQ="] {
            let refusal = secret("sign_env", "INVOICE", text).unwrap_err().to_string();
            assert!(
                refusal.starts_with("sign_env: INVOICE: must be whsec_") && !refusal.contains("s3cret"),
                "{refusal}"
            );
        }
    }
}

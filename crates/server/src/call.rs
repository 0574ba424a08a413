//! A request that was admitted, and its answer.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use turnwise::{Invalid, Job, JobId, QueueName, Timestamp, Turnwise, wire::Unreadable};
use turnwise_core::{
    access::{Action, Grant, Target},
    time::parse_span,
};

use crate::{access::Caller, problem::Problem, service::Service};

/// A request whose caller may do this at all; to which jobs, the handler asks the grant.
pub(crate) struct Call {
    pub(crate) service: Service,
    pub(crate) action: Option<Action>,
    pub(crate) caller: Caller,
    pub(crate) grant: Arc<Grant>,
    /// The one name in the path, decoded; empty where it has none.
    pub(crate) name: String,
    pub(crate) query: Query,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn turnwise(&self) -> &Turnwise {
        self.service.turnwise()
    }

    /// Whether the caller may do this to that.
    pub(crate) fn check(&self, target: Target<'_>) -> Result<(), Problem> {
        self.action.map_or(Ok(()), |action| self.grant.check(action, target)).map_err(Problem::from)
    }

    /// Whether the caller may still ask: its token may have been revoked meanwhile.
    pub(crate) async fn again(&self) -> Result<(), Problem> {
        self.service.door().again(self.turnwise(), &self.caller).await
    }

    pub(crate) fn covers(&self, job: &Job) -> bool {
        self.grant.covers(&job.queue, &job.group, &job.task)
    }

    /// The id in the path.
    pub(crate) fn id(&self) -> Result<JobId, Problem> {
        self.name.parse().map_err(|_| Problem::not_found(format!("{:?} is not a job id", self.name)))
    }

    /// The job in the path; one that the caller may not see is not there.
    pub(crate) async fn job(&self) -> Result<Job, Problem> {
        let id = self.id()?;
        let job = self.turnwise().job(id).await?;
        self.check(Target::job(&job)).map_err(|_| Problem::no_such_job(id))?;
        Ok(job)
    }

    /// The name in the path, as a queue's, a group's and so on.
    pub(crate) fn named<'a, N>(&'a self, read: impl FnOnce(&'a str) -> Result<N, Invalid>) -> Result<N, Problem> {
        read(&self.name).map_err(|invalid| Problem::in_parameter("name", &invalid))
    }

    /// The body; one that is left out is an empty object.
    pub(crate) fn read<'a, T>(&'a self, read: impl FnOnce(&'a str) -> Result<T, Unreadable>) -> Result<T, Problem> {
        let text = if self.body.is_empty() { "{}" } else { text(&self.body)? };
        read(text).map_err(|unreadable| Problem::unreadable(&unreadable))
    }
}

pub(crate) fn text(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|error| Problem::malformed(format!("the body is not UTF-8 from byte {}", error.valid_up_to() + 1)))
}

/// The parameters behind the question mark.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Refuses parameters that the route does not know, and those that are given twice, but for `many`.
    pub(crate) fn read(text: &str, known: &[&str], many: &[&str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if !known.contains(&name.as_str()) {
                let list =
                    if known.is_empty() { "none are".to_owned() } else { format!("known are {}", known.join(", ")) };
                return Err(Problem::invalid(name.clone(), format!("unknown parameter {name:?}; {list}")));
            }
            if pairs.iter().any(|(other, _)| *other == name) && !many.contains(&name.as_str()) {
                return Err(Problem::invalid(name.clone(), format!("{name}: is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A name of whatever kind: all have the same rules.
    pub(crate) fn name(&self, name: &str) -> Result<Option<String>, Problem> {
        self.parse(name, |text| QueueName::new(text).map(|name| name.to_string()))
    }

    /// Of a parameter that may be repeated, or have several values between commas.
    pub(crate) fn list<T: FromStr<Err = Invalid>>(&self, name: &str) -> Result<Vec<T>, Problem> {
        let values = self.0.iter().filter(|(other, _)| other == name).flat_map(|(_, value)| value.split(','));
        let read = |value: &str| value.parse().map_err(|invalid| Problem::in_parameter(name, &invalid));
        values.filter(|value| !value.is_empty()).map(read).collect()
    }

    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        self.parse(name, |text| text.parse())
    }

    pub(crate) fn span(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        self.parse(name, |text| parse_span(name, text))
    }

    pub(crate) fn id(&self, name: &'static str) -> Result<Option<JobId>, Problem> {
        self.parse(name, |text| text.parse().map_err(|_| Invalid::new(name, format!("{text:?} is not a job id"))))
    }

    /// A whole number from 1 to `most`.
    pub(crate) fn count(&self, name: &'static str, most: u32) -> Result<Option<u32>, Problem> {
        self.parse(name, |text| match text.parse() {
            Ok(count) if (1..=most).contains(&count) => Ok(count),
            _ => Err(Invalid::new(name, format!("must be 1 to {most}, not {text:?}"))),
        })
    }

    pub(crate) fn parse<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, Invalid>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(read).transpose().map_err(|invalid| Problem::in_parameter(name, &invalid))
    }
}

fn decoded(text: &str) -> Result<String, Problem> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| Problem::malformed("a parameter is not UTF-8"))
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    body: Vec<u8>,
    location: Option<String>,
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_vec(value).map_err(|error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            Problem::away("the answer could not be written")
        })?;
        Ok(Self::of("application/json", body))
    }

    pub(crate) fn of(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: StatusCode::OK, content_type, body: body.into(), location: None }
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// It was made, and can be read there.
    pub(crate) fn created(self, location: impl fmt::Display) -> Self {
        Self { location: Some(location.to_string()), ..self.status(StatusCode::CREATED) }
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if let Some(location) = self.location.and_then(|location| HeaderValue::try_from(location).ok()) {
            headers.insert(header::LOCATION, location);
        }
        response
    }
}

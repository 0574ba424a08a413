//! The sending of spans, by OTLP over HTTP with protobuf.
//!
//! A span has ids, names, numbers, and a word for how it ended: never what a job got, what it returned, or what it said, its errors
//! included. So only the spans that are listed here are sent, and none of the events in them. They are sent in the background; what does
//! not fit into the queue, because the collector is slow or away, is dropped.

use std::{
    env, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
        TraceState, Tracer, TracerProvider,
    },
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracer, SdkTracerProvider, Span},
};
use tokio::runtime::{self, Runtime};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span,
};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, filter_fn},
    layer,
    registry::LookupSpan,
};
use turnwise::{Invalid, TraceContext};
use turnwise_client::Sender;
use turnwise_server::{Spans, SubmitSpan};

use super::ENDPOINT;
use crate::{error::Failure, serve::no_runtime};

/// Where the executor's span of a run comes from. A task may have spans of the same name.
const RUNS: &str = "turnwise_executor::worker";
const RUN: &str = "run";
const SUBMIT: &str = "submit";
/// How long a node that stops waits for the collector.
const FLUSH: Duration = Duration::from_secs(2);
/// How long a collector may take to answer, unless a variable says how long.
const ANSWER: Duration = Duration::from_secs(10);
const PROTOCOL: &str = "http/protobuf";

pub(super) struct Export {
    provider: SdkTracerProvider,
}

impl Export {
    /// `None`: no variable asks for it.
    pub(super) fn from_variables() -> Result<Option<Self>, Failure> {
        let off = said("OTEL_SDK_DISABLED").is_some_and(|said| said.eq_ignore_ascii_case("true"))
            || said("OTEL_TRACES_EXPORTER").is_some_and(|said| said == "none");
        let Some(endpoint) = said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| said(ENDPOINT)) else {
            return Ok(None);
        };
        if off {
            return Ok(None);
        }
        if let Some(other) = of_traces("PROTOCOL").filter(|said| said != PROTOCOL) {
            let problem = format!("must be {PROTOCOL}, not {other:?}");
            return Err(Invalid::new("OTEL_EXPORTER_OTLP_PROTOCOL", problem).into());
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Collector::at(&endpoint)?).build();
        let exporter = exporter.map_err(|error| Failure::Input(format!("{ENDPOINT}: {error}")))?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource());
        Ok(Some(Self { provider: provider.build() }))
    }

    fn tracer(&self) -> SdkTracer {
        self.provider.tracer("turnwise")
    }

    pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> Box<dyn Layer<S> + Send + Sync> {
        let ours = filter_fn(|meta| meta.is_span() && meta.name() == RUN && meta.target() == RUNS);
        // Nothing below is asked for: what other crates tell of themselves stays as cheap as it is.
        let ours = ours.with_max_level_hint(LevelFilter::DEBUG);
        Runs(self.tracer()).with_filter(ours).boxed()
    }

    pub(super) fn of_submits(&self) -> Arc<dyn Spans> {
        Arc::new(Submits(self.tracer()))
    }

    pub(super) fn flush(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!("the last spans may not have been sent: {error}");
        }
    }
}

/// What a variable says; an empty one says nothing.
fn said(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// What is said of the collector, for traces alone or for all that it gets.
fn of_traces(what: &str) -> Option<String> {
    said(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}")).or_else(|| said(&format!("OTEL_EXPORTER_OTLP_{what}")))
}

/// The service and the machine, as the variables name them; the service is turnwise unless they do.
fn resource() -> Resource {
    let named = said("OTEL_SERVICE_NAME").is_some()
        || said("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
    let resource = Resource::builder();
    if named { resource } else { resource.with_service_name("turnwise") }.build()
}

/// The collector, as its exporter asks it. The thread that sends belongs to the exporter and has no runtime.
#[derive(Debug)]
struct Collector {
    sender: Sender,
    runtime: Runtime,
    answer: Duration,
    /// The last batch was not taken: said once, until one is.
    away: AtomicBool,
}

impl Collector {
    fn at(endpoint: &str) -> Result<Self, Failure> {
        let ca = of_traces("CERTIFICATE").map(PathBuf::from);
        let sender = Sender::to(endpoint, ca.as_deref())
            .map_err(|invalid| Invalid::new("OTEL_EXPORTER_OTLP_CERTIFICATE", invalid.problem))?;
        let millis = of_traces("TIMEOUT").and_then(|text| text.parse().ok());
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
        Ok(Self { sender, runtime, answer: millis.map_or(ANSWER, Duration::from_millis), away: AtomicBool::new(false) })
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:?}", self.answer));
        let sent = self
            .runtime
            .block_on(async { tokio::time::timeout(self.answer, self.sender.send(request)).await.map_err(late)? });
        let problem = match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it answers with {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        match (problem, self.away.load(Ordering::Relaxed)) {
            (Some(problem), false) => tracing::warn!("spans are dropped: the collector does not take them: {problem}"),
            (None, true) => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        self.away.store(!matches!(&sent, Ok(response) if response.status().is_success()), Ordering::Relaxed);
        Ok(sent?)
    }
}

/// The place in a trace that another process has told.
fn remote(trace: &str, parent: &str, sampled: bool) -> Option<Context> {
    let (trace, parent) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(parent).ok()?);
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let remote = SpanContext::new(trace, parent, flags, true, TraceState::default());
    Some(Context::new().with_remote_span_context(remote))
}

/// Spans of runs, made of those that the executor tells.
struct Runs(SdkTracer);

/// Kept with the executor's span.
struct Sent(Span);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Runs {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: layer::Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let named = [("turnwise.job", fields.job), ("turnwise.task", fields.task)];
        let builder = SpanBuilder::from_name(RUN)
            .with_kind(SpanKind::Consumer)
            .with_attributes(named.map(|(name, value)| KeyValue::new(name, value)));
        let parent = remote(&fields.trace_id, &fields.parent_id, fields.sampled).unwrap_or_default();
        let begun = self.0.build_with_context(builder, &parent);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Sent(begun));
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: layer::Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(Sent(begun)) = extensions.get_mut() else { return };
        if ["error", "panic", "timeout", "fail"].contains(&fields.outcome.as_str()) {
            begun.set_status(Status::error(fields.outcome.clone()));
        }
        begun.set_attribute(KeyValue::new("turnwise.outcome", fields.outcome));
    }

    fn on_close(&self, id: span::Id, context: layer::Context<'_, S>) {
        let sent = context.span(&id).and_then(|span| span.extensions_mut().remove::<Sent>());
        if let Some(Sent(mut begun)) = sent {
            begun.end();
        }
    }
}

/// The fields that are read of a span; what others it has is not looked at.
#[derive(Default)]
struct Fields {
    job: String,
    task: String,
    trace_id: String,
    parent_id: String,
    sampled: bool,
    outcome: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let known = match field.name() {
            "job" => &mut self.job,
            "task" => &mut self.task,
            "trace_id" => &mut self.trace_id,
            "parent_id" => &mut self.parent_id,
            "outcome" => &mut self.outcome,
            _ => return,
        };
        value.clone_into(known);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "sampled" {
            self.sampled = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Spans of submits over HTTP.
#[derive(Debug)]
struct Submits(SdkTracer);

struct Submit {
    span: Span,
    /// What other systems say about the trace goes on with it.
    state: Option<String>,
}

impl Spans for Submits {
    fn submit(&self, caller: Option<&TraceContext>) -> Box<dyn SubmitSpan> {
        let builder = SpanBuilder::from_name(SUBMIT)
            .with_kind(SpanKind::Server)
            .with_attributes([KeyValue::new("http.request.method", "POST")]);
        let parent = caller.and_then(|caller| remote(caller.trace_id(), caller.parent_id(), caller.is_sampled()));
        let span = self.0.build_with_context(builder, &parent.unwrap_or_default());
        Box::new(Submit { span, state: caller.and_then(|caller| caller.tracestate().map(str::to_owned)) })
    }
}

impl SubmitSpan for Submit {
    fn context(&self) -> Option<TraceContext> {
        let own = self.span.span_context();
        let flags = u8::from(own.is_sampled());
        let parent = format!("00-{}-{}-{flags:02x}", own.trace_id(), own.span_id());
        TraceContext::new(&parent, self.state.as_deref()).ok()
    }

    fn end(mut self: Box<Self>, status: u16, jobs: usize) {
        self.span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        self.span.set_attribute(KeyValue::new("turnwise.jobs", i64::try_from(jobs).unwrap_or(i64::MAX)));
        if status >= 500 {
            self.span.set_status(Status::error("not submitted"));
        }
        self.span.end();
    }
}

//! Spans of submits and of runs, sent to a collector where this binary was built with the feature `otlp` and a variable names one; [the
//! guide](../../../docs/guides/operations.md#traces).

#[cfg(feature = "otlp")]
mod export;

use std::sync::Arc;

use tracing::Subscriber;
use tracing_subscriber::{Layer, registry::LookupSpan};
use turnwise_server::Spans;

use crate::error::Failure;

/// Names the address of a collector, to which `/v1/traces` is added.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Where spans go, if anywhere.
pub(crate) struct Otlp {
    #[cfg(feature = "otlp")]
    export: Option<export::Export>,
}

impl Otlp {
    /// As the variables say that all programs have for it.
    #[cfg(feature = "otlp")]
    pub(crate) fn from_variables() -> Result<Self, Failure> {
        Ok(Self { export: export::Export::from_variables()? })
    }

    #[cfg(not(feature = "otlp"))]
    pub(crate) fn from_variables() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// Says it where a variable asks for spans and this binary cannot send any. It may be meant for other programs.
    pub(crate) fn say_if_left_out() {
        if cfg!(not(feature = "otlp")) && std::env::var_os(ENDPOINT).is_some_and(|endpoint| !endpoint.is_empty()) {
            tracing::info!("{ENDPOINT} has no effect: this turnwise was built without the feature otlp");
        }
    }

    /// Makes spans of the runs that the executor tells.
    #[cfg(feature = "otlp")]
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>> {
        self.export.as_ref().map(export::Export::layer)
    }

    #[cfg(not(feature = "otlp"))]
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>> {
        None
    }

    /// Makes spans of submits over HTTP.
    #[cfg(feature = "otlp")]
    pub(crate) fn of_submits(&self) -> Option<Arc<dyn Spans>> {
        self.export.as_ref().map(export::Export::of_submits)
    }

    #[cfg(not(feature = "otlp"))]
    pub(crate) fn of_submits(&self) -> Option<Arc<dyn Spans>> {
        None
    }

    /// Sends what is left, for a bounded time.
    pub(crate) fn flush(&self) {
        #[cfg(feature = "otlp")]
        if let Some(export) = &self.export {
            export.flush();
        }
    }
}

//! How a node is set up, and its HTTP API.

use std::path::PathBuf;

use turnwise::{Config, Invalid, NodeName, QueueName};
use turnwise_core::time::parse_span;
use turnwise_server::{Certificate, Origins, Proxies};

use super::{Settings, number, source::refused, truth};
use crate::{
    error::Failure,
    http::{Listen, On},
};

const THREAD_NAME_PREFIX: &str = "task-";

impl Settings {
    /// Whether a person chose the node's name.
    pub(crate) fn names_node(&self) -> bool {
        self.said("name").is_some()
    }

    /// Where the HTTP API answers.
    pub(crate) fn listen(&self) -> Result<Listen, Failure> {
        let mut listen = Listen::default();
        self.read("listen", &mut listen.on, On::read)?;
        self.read("plain_http", &mut listen.plain_http, |text| truth("plain_http", text))?;
        self.read("allow_origin", &mut listen.origins, |text| {
            let mut origins = Origins::default();
            text.split(',').map(str::trim).try_for_each(|origin| origins.allow(origin))?;
            Ok(origins)
        })?;
        self.read("embed_origin", &mut listen.embedders, |text| {
            let mut origins = Origins::default();
            text.split(',').map(str::trim).try_for_each(|origin| origins.embed(origin))?;
            Ok(origins)
        })?;
        self.read("trust_proxy", &mut listen.proxies, |text| {
            let mut proxies = Proxies::default();
            text.split(',').map(str::trim).try_for_each(|network| proxies.trust(network))?;
            Ok(proxies)
        })?;
        let (mut cert, mut key) = (None, None);
        self.read("tls_cert", &mut cert, |text| Ok(Some(PathBuf::from(text))))?;
        self.read("tls_key", &mut key, |text| Ok(Some(PathBuf::from(text))))?;
        listen.certificate = match (cert, key) {
            (Some(cert), Some(key)) => Some(Certificate::read(cert, key)?),
            (None, None) => None,
            (Some(_), None) => return Err(Invalid::new("tls_key", "is missing beside tls_cert").into()),
            (None, Some(_)) => return Err(Invalid::new("tls_cert", "is missing beside tls_key").into()),
        };
        Ok(listen)
    }

    /// How the node is set up.
    pub(crate) fn executor(&self) -> Result<Config, Failure> {
        let mut config = match self.said("name") {
            Some((source, name)) => Config::new(NodeName::new(name).map_err(|invalid| refused(source, &invalid))?),
            None => Config::for_this_host()?,
        };
        config.thread_name_prefix = Some(THREAD_NAME_PREFIX.to_owned());
        self.read("core_pool_size", &mut config.core_pool_size, |text| number("core_pool_size", text))?;
        self.read("max_pool_size", &mut config.max_pool_size, |text| number("max_pool_size", text).map(Some))?;
        self.read("thread_name_prefix", &mut config.thread_name_prefix, |text| Ok(Some(text.to_owned())))?;
        self.read("queue_capacity", &mut config.queue_capacity, |text| number("queue_capacity", text))?;
        self.read("batch_size", &mut config.batch_size, |text| number("batch_size", text))?;
        self.read("look_every", &mut config.look_every, |text| number("look_every", text))?;
        self.read("poll_interval", &mut config.poll_interval, |text| parse_span("poll_interval", text).map(Some))?;
        self.read("lease", &mut config.lease, |text| parse_span("lease", text))?;
        self.read("await_termination", &mut config.await_termination, |text| parse_span("await_termination", text))?;
        self.read("wait_for_tasks_on_shutdown", &mut config.wait_for_tasks_on_shutdown, |text| {
            truth("wait_for_tasks_on_shutdown", text)
        })?;
        if let Some((source, names)) = self.all_said("queues").filter(|(_, names)| !names.is_empty()) {
            let queues = names.iter().map(QueueName::new).collect::<Result<_, _>>();
            config.queues = Some(queues.map_err(|invalid| refused(source, &invalid))?);
        }
        config.validate().map_err(|invalid| match self.all_said(invalid.field) {
            Some((source, _)) => refused(source, &invalid),
            None => invalid.into(),
        })?;
        Ok(config)
    }
}

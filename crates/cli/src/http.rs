//! The HTTP API of a node: where it answers, and its start and end.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;
use turnwise::{Executor, Invalid, Turnwise};
use turnwise_server::{Certificate, Listening, Origins, Proxies, Service};

use crate::{error::Failure, otlp::Otlp};

const DEFAULT_PORT: u16 = 8080;

/// What is set about the listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listen {
    pub(crate) on: On,
    pub(crate) plain_http: bool,
    pub(crate) certificate: Option<Certificate>,
    pub(crate) origins: Origins,
    pub(crate) embedders: Origins,
    pub(crate) proxies: Proxies,
}

/// Where to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum On {
    /// No address was given: port 8080 of this machine, or any free one.
    #[default]
    Usual,
    Address(SocketAddr),
    Nowhere,
}

impl On {
    /// An address with its port, a port of this machine, or `none`.
    pub(crate) fn read(text: &str) -> Result<Self, Invalid> {
        if text == "none" {
            return Ok(Self::Nowhere);
        }
        let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Ok(port) = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>() {
            return Ok(Self::Address(here(port)));
        }
        let bad = |_| {
            let form = "write an address with its port like 127.0.0.1:8080, a port, or none";
            Invalid::new("listen", format!("{text:?} is not an address; {form}"))
        };
        text.parse().map(Self::Address).map_err(bad)
    }
}

impl Listen {
    /// Takes the address. Where none was asked for, a node runs without HTTP rather than not at all.
    pub(crate) async fn bind(&self) -> Result<Option<TcpListener>, Failure> {
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
        let address = match self.on {
            On::Nowhere => return Ok(None),
            On::Address(address) => {
                let taken =
                    |error| Failure::Other(format!("cannot listen on {address}: {error}; choose another --listen"));
                return TcpListener::bind(address).await.map(Some).map_err(taken);
            }
            On::Usual => usual,
        };
        let bound = match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
            }
            bound => bound,
        };
        Ok(bound.map_err(|error| tracing::warn!(%error, "cannot listen on {address}: this node answers no HTTP")).ok())
    }

    /// Only this machine reaches a loopback address. Any other one needs a token to exist, and TLS or a word about it.
    pub(crate) async fn check(&self, turnwise: &Turnwise) -> Result<(), Failure> {
        match self.on {
            On::Address(address) if !address.ip().is_loopback() => {
                let problem = self.missing(Service::new(turnwise.clone()).has_tokens().await?);
                problem
                    .map_or(Ok(()), |problem| Err(Invalid::new("listen", format!("{} {problem}", address.ip())).into()))
            }
            _ => Ok(()),
        }
    }

    /// What is missing to answer other machines.
    fn missing(&self, has_tokens: bool) -> Option<&'static str> {
        match (has_tokens, self.plain_http || self.certificate.is_some()) {
            (false, _) => Some(
                "can be reached by other machines, and there is no token; create one (turnwise token create) and add \
                 --tls-cert and --tls-key, or listen on 127.0.0.1",
            ),
            (true, false) => Some(
                "can be reached by other machines, and without TLS tokens would be readable on the way; add --tls-cert and \
                 --tls-key, or --plain-http if the network or a proxy protects them, or listen on 127.0.0.1",
            ),
            (true, true) => None,
        }
    }
}

/// The running listener of a node.
pub(crate) struct Http {
    scheme: &'static str,
    service: Service,
    listening: Listening,
}

impl Http {
    pub(crate) fn start(turnwise: &Turnwise, listener: TcpListener, listen: Listen) -> Result<Self, Failure> {
        let service = Service::behind(listen.proxies, listen.origins, turnwise.clone());
        service.may_be_embedded_by(listen.embedders);
        let scheme = if listen.certificate.is_some() { "https" } else { "http" };
        let listening = service
            .listen(listener, listen.certificate)
            .map_err(|error| Failure::Other(format!("cannot answer HTTP: {error}")))?;
        Ok(Self { scheme, service, listening })
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.listening.address())
    }

    /// Shows the numbers of this node beside those of the installation.
    pub(crate) fn watch(&self, node: &Executor) {
        self.service.watch(node.clone());
    }

    /// Submits have spans from now on, if there is a collector for them.
    pub(crate) fn send_spans_to(&self, otlp: &Otlp) {
        if let Some(spans) = otlp.of_submits() {
            self.service.send_spans_to(spans);
        }
    }

    /// The node is about to stop: says so to callers that ask, and lets no caller wait any longer.
    pub(crate) fn stop_soon(&self) {
        self.service.stop_soon();
    }

    pub(crate) async fn stop(self) {
        self.listening.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_port() {
        let here = |port| On::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        for (text, on) in [
            ("none", On::Nowhere),
            ("9000", here(9000)),
            ("localhost:9000", here(9000)),
            ("127.0.0.1:0", here(0)),
            ("[::1]:9000", On::Address("[::1]:9000".parse().unwrap())),
        ] {
            assert_eq!(On::read(text).unwrap(), on, "{text}");
        }
        for text in ["", "here", "127.0.0.1", "example.com:80", "99999"] {
            assert!(On::read(text).unwrap_err().to_string().starts_with("listen: "), "{text}");
        }
    }

    #[test]
    fn other_machines_need_a_token_and_a_word_about_tls() {
        let missing = |plain_http, has_tokens| Listen { plain_http, ..Listen::default() }.missing(has_tokens);
        assert!(missing(false, false).is_some_and(|problem| problem.contains("create one")));
        assert!(missing(true, false).is_some_and(|problem| problem.contains("create one")));
        assert!(missing(false, true).is_some_and(|problem| problem.contains("--plain-http")));
        assert_eq!(missing(true, true), None);
    }
}

//! The HTTP API of a node: where it answers, and its start and end.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;
use turnwise::{Invalid, Turnwise};
use turnwise_server::{Listening, Service};

use crate::error::Failure;

const DEFAULT_PORT: u16 = 8080;

/// What is set about the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Listen {
    pub(crate) on: On,
    pub(crate) plain_http: bool,
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
        if let Some(port) = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>().ok() {
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
    pub(crate) async fn bind(self) -> Result<Option<TcpListener>, Failure> {
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT));
        let address = match self.on {
            On::Nowhere => return Ok(None),
            On::Address(address) => {
                self.check(address.ip())?;
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

    /// Only this machine reaches a loopback address. Any other one needs tokens, and a word about TLS.
    fn check(self, ip: IpAddr) -> Result<(), Failure> {
        if ip.is_loopback() {
            return Ok(());
        }
        let how = "listen on 127.0.0.1, and reach it from elsewhere through an SSH tunnel";
        let problem = format!("{ip} can be reached by other machines, and access is not limited by tokens yet; {how}");
        Err(Invalid::new("listen", problem).into())
    }
}

/// The running listener of a node.
pub(crate) struct Http {
    service: Service,
    listening: Listening,
}

impl Http {
    pub(crate) fn start(turnwise: &Turnwise, listener: TcpListener) -> Result<Self, Failure> {
        let service = Service::new(turnwise.clone());
        let listening =
            service.listen(listener).map_err(|error| Failure::Other(format!("cannot answer HTTP: {error}")))?;
        Ok(Self { service, listening })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listening.address())
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
    fn other_machines_are_not_served_without_tokens() {
        for ip in ["0.0.0.0", "10.0.0.1", "::"] {
            let listen = Listen { on: On::Usual, plain_http: true };
            assert!(matches!(listen.check(ip.parse().unwrap()), Err(Failure::Input(_))), "{ip}");
        }
    }
}

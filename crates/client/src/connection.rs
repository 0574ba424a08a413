//! One connection to a server, encrypted or not.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use turnwise_core::Invalid;

use crate::Address;

/// How long a server may take to accept a connection: a name that leads nowhere is noticed, a slow network is not.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How connections are encrypted.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the roots of this machine, or only those in the PEM file that the setting `server_ca` names.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, Invalid> {
        Self::trusting("server_ca", ca)
    }

    /// The same, where another setting names the file.
    pub(crate) fn trusting(setting: &'static str, ca: Option<&Path>) -> Result<Self, Invalid> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => {
                let bad = |problem: String| Invalid::new(setting, format!("{}: {problem}", path.display()));
                let text = fs::read(path).map_err(|error| bad(error.to_string()))?;
                for certificate in CertificateDer::pem_slice_iter(&text) {
                    let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                    roots.add(certificate).map_err(|error| bad(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err(bad("has no certificate in PEM form".to_owned()));
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let problem = "this machine has no root certificates; name a PEM file with the server's root";
                    return Err(Invalid::new(setting, problem));
                }
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Invalid::new("server", format!("TLS cannot be used: {error}")))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// A connection that requests are sent on, one after the other.
pub(crate) struct Connection {
    pub(crate) requests: SendRequest<Full<Bytes>>,
    /// Reads and writes; ends with the connection.
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Connection {
    /// Connects; an error says what could not be done.
    pub(crate) async fn open(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        let late =
            |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", CONNECT_TIME.as_secs()));
        timeout(CONNECT_TIME, Self::connect(address, tls)).await.map_err(late)?
    }

    async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        Self::on(stream, &address.host, tls).await
    }

    /// On a stream that leads to this host, perhaps by way of a proxy.
    pub(crate) async fn on(stream: TcpStream, host: &str, tls: Option<&Tls>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        match tls {
            None => Self::over(stream).await,
            Some(Tls(connector)) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                Self::over(connector.connect(name, stream).await?).await
            }
        }
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> io::Result<Self> {
        let (requests, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The request that is under way gets the error.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { requests, driver })
    }
}

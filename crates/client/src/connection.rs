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
                Self::over(connector.connect(name, stream).await.map_err(with_advice)?).await
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

/// What to do about a certificate that signs others, shown by the server as its own: `openssl req -x509` makes such.
fn with_advice(error: io::Error) -> io::Error {
    // Webpki's word for it has no name in rustls.
    if !format!("{error:?}").contains("CaUsedAsEndEntity") {
        return error;
    }
    let advice = "the server's certificate is one that signs others (CA:TRUE), and is not accepted as a server's own; make the server another \
                  one, signed by it or by itself (openssl req -x509 ... -addext basicConstraints=critical,CA:FALSE)";
    io::Error::new(error.kind(), advice)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
    use rustls::{ServerConfig, pki_types::PrivateKeyDer};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn a_certificate_that_signs_others_is_refused_with_what_to_do_and_one_that_does_not_is_taken() {
        for (is_ca, taken) in [(IsCa::Ca(BasicConstraints::Unconstrained), false), (IsCa::ExplicitNoCa, true)] {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.is_ca = is_ca;
            let certificate = params.self_signed(&key).unwrap();
            let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], private)
                .unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = async {
                let (stream, _) = listener.accept().await.unwrap();
                TlsAcceptor::from(Arc::new(config)).accept(stream).await
            };
            let folder = tempfile::tempdir().unwrap();
            let ca = folder.path().join("ca.pem");
            fs::write(&ca, certificate.pem()).unwrap();
            let tls = Tls::new(Some(&ca)).unwrap();
            let address = Address::read(&format!("https://localhost:{port}"), false).unwrap();
            let (_, opened) = tokio::join!(server, Connection::open(&address, Some(&tls)));
            match opened {
                Ok(_) => assert!(taken),
                Err(error) => {
                    assert!(!taken, "{error}");
                    assert!(error.to_string().contains("basicConstraints=critical,CA:FALSE"), "{error}");
                }
            }
        }
    }
}

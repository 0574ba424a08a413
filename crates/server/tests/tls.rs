//! By TLS: a server shows the certificate of its files, and a renewed one without a restart.

mod support;

use std::{net::SocketAddr, path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};
use support::{PATIENCE, Server};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use turnwise_server::{Certificate, Listening};

/// Writes a fresh certificate of `localhost` and its key.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

struct Host {
    folder: TempDir,
    listening: Listening,
    first: CertificateDer<'static>,
    _server: Server,
}

async fn host() -> Host {
    let folder = tempfile::tempdir().unwrap();
    let first = renew(folder.path());
    let certificate = Certificate::read(folder.path().join("cert.pem"), folder.path().join("key.pem")).unwrap();
    let server = Server::on_memory().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listening = server.service.listen(listener, Some(certificate)).unwrap();
    Host { folder, listening, first, _server: server }
}

/// The answer of a server to a caller who trusts only this certificate; `None`: the caller does not trust the server.
async fn ask(address: SocketAddr, trusted: &CertificateDer<'static>) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    Some(text)
}

#[tokio::test]
async fn a_caller_that_trusts_the_certificate_is_answered_and_no_other() {
    let host = host().await;
    let address = host.listening.address();
    let answer = ask(address, &host.first).await.expect("the certificate is the one in the file");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(ask(address, &renew(elsewhere.path())).await, None, "another certificate was trusted");

    // Without TLS there is no answer, and above all none that says anything.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut answer)).await.expect("the server closes the connection");
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    host.listening.stop().await;
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_never() {
    let host = host().await;
    let address = host.listening.address();
    // Half of a renewal: the key does not fit the certificate. The old one is shown.
    let key = std::fs::read(host.folder.path().join("key.pem")).unwrap();
    let second = renew(host.folder.path());
    let new_key = std::fs::read(host.folder.path().join("key.pem")).unwrap();
    std::fs::write(host.folder.path().join("key.pem"), key).unwrap();
    assert!(ask(address, &host.first).await.is_some());
    std::fs::write(host.folder.path().join("key.pem"), new_key).unwrap();
    let shown = async { while ask(address, &second).await.is_none() {} };
    timeout(PATIENCE, shown).await.expect("the renewed certificate is never shown");
    assert_eq!(ask(address, &host.first).await, None, "the old certificate is still shown");
    // A file that is gone takes nothing away.
    std::fs::remove_file(host.folder.path().join("cert.pem")).unwrap();
    assert!(ask(address, &second).await.is_some());
    host.listening.stop().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    renew(folder.path());
    renew(other.path());
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    for (chain, key, words) in [
        (folder.path().join("none.pem"), key.clone(), "tls_cert: "),
        (key.clone(), key.clone(), "tls_cert: has no certificate in PEM"),
        (cert.clone(), cert.clone(), "tls_key: is not a private key in PEM"),
        (cert.clone(), other.path().join("key.pem"), "tls_key: does not fit the certificate"),
    ] {
        let refused = Certificate::read(chain, key).unwrap_err().to_string();
        assert!(refused.starts_with(words), "{refused}");
    }
}

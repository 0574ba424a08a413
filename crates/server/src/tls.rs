//! TLS: a certificate from files, read again when they change.

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::time::sleep;
use turnwise::Invalid;

use crate::limits::CERTIFICATE_LOOK;

/// The certificate that the server shows, from two files in PEM.
///
/// Programs that renew certificates replace the files: a server that [listens](crate::Service::listen) with them reads them again when
/// they have changed, and goes on with the old ones while the new ones do not fit each other.
#[derive(Debug, Clone)]
pub struct Certificate(Arc<Files>);

#[derive(Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
    shown: RwLock<Shown>,
}

struct Shown {
    /// What the files had in them.
    read: (Vec<u8>, Vec<u8>),
    key: Arc<CertifiedKey>,
}

impl fmt::Debug for Shown {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Certificate {
    /// Reads the certificate, with those that lead to its root after it, and its private key.
    pub fn read(chain: PathBuf, key: PathBuf) -> Result<Self, Invalid> {
        let read = (file("tls_cert", &chain)?, file("tls_key", &key)?);
        let certified = certified(&read)?;
        let shown = RwLock::new(Shown { read, key: Arc::new(certified) });
        Ok(Self(Arc::new(Files { chain, key, shown })))
    }

    pub(crate) fn config(&self) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.0) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Looks at the files now and then, for as long as it is polled.
    pub(crate) async fn watch(self) {
        let mut told = None;
        loop {
            sleep(CERTIFICATE_LOOK).await;
            let files = Arc::clone(&self.0);
            match tokio::task::spawn_blocking(move || files.look()).await {
                Ok(Ok(true)) => tracing::info!("the certificate has changed; new connections are shown the new one"),
                Ok(Ok(false)) => {}
                // Once for each thing that is wrong.
                Ok(Err(invalid)) if told.as_ref() == Some(&invalid) => continue,
                Ok(Err(invalid)) => {
                    tracing::warn!(error = %invalid, "the certificate cannot be read again; the old one is shown");
                    told = Some(invalid);
                    continue;
                }
                Err(error) => tracing::error!(%error, "the look at the certificate ended badly"),
            }
            told = None;
        }
    }
}

impl Files {
    /// Whether the files have changed, and fit each other.
    fn look(&self) -> Result<bool, Invalid> {
        let read = (file("tls_cert", &self.chain)?, file("tls_key", &self.key)?);
        if self.shown.read().unwrap_or_else(PoisonError::into_inner).read == read {
            return Ok(false);
        }
        let key = Arc::new(certified(&read)?);
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Shown { read, key };
        Ok(true)
    }
}

impl ResolvesServerCert for Files {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner).key))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn file(field: &'static str, path: &PathBuf) -> Result<Vec<u8>, Invalid> {
    fs::read(path).map_err(|error: io::Error| Invalid::new(field, format!("{}: {error}", path.display())))
}

fn certified((chain, key): &(Vec<u8>, Vec<u8>)) -> Result<CertifiedKey, Invalid> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| Invalid::new("tls_cert", format!("is not a certificate in PEM: {error}")))?;
    if chain.is_empty() {
        return Err(Invalid::new("tls_cert", "has no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| Invalid::new("tls_key", format!("is not a private key in PEM: {error}")))?;
    let provider = provider();
    CertifiedKey::from_der(chain, key, &provider)
        .map_err(|error| Invalid::new("tls_key", format!("does not fit the certificate: {error}")))
}

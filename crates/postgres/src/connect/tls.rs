//! Encrypted connections: whether to encrypt, and which certificates to trust.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use turnwise_store::{Result, StoreError};

use super::params::{Params, Surroundings, invalid};

/// `sslmode`, as libpq means it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn read(params: &Params) -> Result<Self> {
        let system = params.get("sslrootcert") == Some("system");
        Ok(match params.get("sslmode") {
            None if system => Self::VerifyFull,
            Some("verify-full") => Self::VerifyFull,
            Some(weak) if system => {
                return Err(invalid("sslmode", weak, "sslrootcert=system needs sslmode=verify-full"));
            }
            None | Some("prefer") => Self::Prefer,
            Some("disable") => Self::Disable,
            Some("allow") => Self::Allow,
            Some("require") => Self::Require,
            Some("verify-ca") => Self::VerifyCa,
            Some(other) => {
                let instead = "write disable, allow, prefer, require, verify-ca or verify-full";
                return Err(invalid("sslmode", other, instead));
            }
        })
    }
}

/// How connections are encrypted.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) mode: Mode,
    pub(crate) connector: MakeRustlsConnect,
}

impl Tls {
    /// Reads the certificates too: a file that is missing is reported now, not with every connection.
    pub(crate) fn read(params: &Params, around: &Surroundings<'_>) -> Result<Self> {
        let mode = Mode::read(params)?;
        let provider = Arc::new(ring::default_provider());
        let roots = if mode == Mode::Disable { None } else { roots(params, around, mode)? };
        let chain = roots.map(|roots| Chain::new(roots, &provider)).transpose()?;
        let judge = Judge { chain, names: mode == Mode::VerifyFull, provider: Arc::clone(&provider) };
        let broken = |error| StoreError::broken("prepare TLS", error);
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = match params.get("ssl_min_protocol_version") {
            None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => builder.with_safe_default_protocol_versions(),
            Some("TLSv1.3") => builder.with_protocol_versions(&[&rustls::version::TLS13]),
            Some(other) => {
                return Err(invalid("ssl_min_protocol_version", other, "write TLSv1.2 or TLSv1.3"));
            }
        };
        let builder = builder.map_err(broken)?.dangerous().with_custom_certificate_verifier(Arc::new(judge));
        let mut config = match if mode == Mode::Disable { None } else { identity(params, around)? } {
            None => builder.with_no_client_auth(),
            Some((certificates, key, name)) => builder.with_client_auth_cert(certificates, key).map_err(|error| {
                StoreError::Refused(format!("the client certificate of {name} cannot be used: {error}"))
            })?,
        };
        if params.get("sslnegotiation") == Some("direct") {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(Self { mode, connector: MakeRustlsConnect::new(config) })
    }
}

/// The roots that the server's certificate must come from; `None`: it may come from anywhere.
fn roots(params: &Params, around: &Surroundings<'_>, mode: Mode) -> Result<Option<Roots>> {
    let named = params.get("sslrootcert").filter(|name| *name != "system").map(PathBuf::from);
    let usual = || home_file(around, "root.crt");
    let file = if params.get("sslrootcert") == Some("system") { None } else { named.or_else(usual) };
    match file {
        Some(path) => {
            let certificates = certificates("sslrootcert", &path)?;
            let said = format!("the roots in {}", path.display());
            Ok(Some(Roots { certificates, said }))
        }
        None if mode >= Mode::VerifyCa => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
                return Err(StoreError::Refused(format!(
                    "this machine has no root certificates{why}; install the package ca-certificates, or name a file \
                     with sslrootcert"
                )));
            }
            Ok(Some(Roots { certificates: found.certs, said: "this machine's roots".to_owned() }))
        }
        None => Ok(None),
    }
}

struct Roots {
    certificates: Vec<CertificateDer<'static>>,
    /// Where they are from.
    said: String,
}

fn home_file(around: &Surroundings<'_>, name: &str) -> Option<PathBuf> {
    Some(around.home()?.join(".postgresql").join(name)).filter(|path| path.is_file())
}

fn certificates(parameter: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unread = |error: &dyn std::fmt::Display| {
        StoreError::Refused(format!("{parameter}={}: no certificate can be read: {error}", path.display()))
    };
    let text = fs::read(path).map_err(|error| unread(&error))?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| unread(&error))?;
    if found.is_empty() { Err(unread(&"it holds none in PEM")) } else { Ok(found) }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, String);

/// The certificate and key by which the server shall know the user.
fn identity(params: &Params, around: &Surroundings<'_>) -> Result<Option<Identity>> {
    let file =
        |parameter: &str, usual: &str| params.get(parameter).map(PathBuf::from).or_else(|| home_file(around, usual));
    let Some(certificate) = file("sslcert", "postgresql.crt") else { return Ok(None) };
    let Some(key) = file("sslkey", "postgresql.key") else {
        return Err(StoreError::Refused(format!(
            "there is a client certificate, {}, and no key for it; name its file with sslkey",
            certificate.display()
        )));
    };
    let certificates = certificates("sslcert", &certificate)?;
    let unread = |error: &dyn std::fmt::Display| {
        StoreError::Refused(format!("sslkey={}: the key cannot be read: {error}", key.display()))
    };
    if open_to_others(&key).map_err(|error| unread(&error))? {
        return Err(unread(&format!("others may read it; run `chmod 600 {}`", key.display())));
    }
    let text = fs::read(&key).map_err(|error| unread(&error))?;
    if text.windows(9).any(|word| word == b"ENCRYPTED") {
        return Err(unread(&"it is encrypted; decrypt it with `openssl pkey -in KEY -out PLAIN`"));
    }
    let secret = PrivateKeyDer::from_pem_slice(&text).map_err(|error| unread(&error))?;
    Ok(Some((certificates, secret, certificate.display().to_string())))
}

/// As libpq: a key is its owner's, or root's and its group's.
#[cfg(unix)]
fn open_to_others(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(path)?;
    let forbidden = if file.uid() == 0 { 0o037 } else { 0o077 };
    Ok(file.mode() & forbidden != 0)
}

#[cfg(not(unix))]
fn open_to_others(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}

/// The roots that may have signed the server's certificate.
#[derive(Debug)]
struct Chain {
    verifier: Arc<WebPkiServerVerifier>,
    /// A certificate that is itself among the roots is as good as one that a root signed; the library would refuse it as
    /// one of an authority.
    roots: Vec<CertificateDer<'static>>,
}

impl Chain {
    fn new(roots: Roots, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.certificates.iter().cloned());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
        let verifier =
            builder.build().map_err(|error| StoreError::Refused(format!("{} cannot be used: {error}", roots.said)))?;
        Ok(Self { verifier, roots: roots.certificates })
    }
}

/// Judges the server's certificate, as far as `sslmode` demands.
#[derive(Debug)]
struct Judge {
    chain: Option<Chain>,
    names: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        if !chain.roots.iter().any(|root| root == end_entity) {
            let found = chain.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
            match found {
                // The chain is checked before the name.
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) if !self.names => {}
                found => _ = found?,
            }
        }
        if self.names {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a person can do about a handshake that failed; `None`: a retry may succeed.
pub(crate) fn advice(error: &tokio_postgres::Error) -> Option<String> {
    let source = std::error::Error::source(error)?;
    if source.to_string() == "server does not support TLS" {
        let what = "the server does not support TLS; set ssl = on there, or write sslmode=prefer";
        return Some(what.to_owned());
    }
    let tls = source.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(problem) = tls else {
        return match tls {
            rustls::Error::AlertReceived(alert) => Some(format!(
                "the server ended the handshake ({alert:?}); does it want a client certificate? name it with sslcert and \
                 sslkey"
            )),
            _ => None,
        };
    };
    Some(match problem {
        CertificateError::UnknownIssuer => {
            "the server's certificate is not signed by a root that is trusted here; name \
             the file of its root with sslrootcert, or write sslmode=require to encrypt without this check"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "{problem}; connect by a name that the certificate has as a subjectAltName, or write sslmode=verify-ca to \
             check only who signed it"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the server's certificate has expired ({problem}); renew it")
        }
        CertificateError::Other(_) | CertificateError::BadEncoding => format!(
            "the server's certificate cannot be used ({problem}); it must be of X.509 version 3 and no authority's: make it \
             with a subjectAltName"
        ),
        other => format!("the server's certificate cannot be used: {other}"),
    })
}

//! Encrypted connections, to a server that takes no others.

mod database;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use database::{id, job, lead, node};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use turnwise_postgres::{PostgresStore, Transactions, connect};
use turnwise_store::{Options, Store, StoreError};
use turnwise_testpg::Cluster;

/// TLS only; `ann` is known by her certificate, `bob` by a password.
const HBA: &str = "hostssl all postgres all trust\nhostssl all ann all cert\nhostssl all bob all scram-sha-256";

struct Server {
    cluster: Cluster,
    files: tempfile::TempDir,
}

impl Server {
    fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn url(&self, user: &str, host: &str, more: &str) -> String {
        let url = self.cluster.url().replace("postgres@", &format!("{user}@")).replace("127.0.0.1", host);
        let more = more.replace("ROOT", &self.file("root.crt").display().to_string());
        format!("{url}?{}", more.replace("FOLDER", &self.files.path().display().to_string()))
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

fn signed(by: &Authority, name: &str, hosts: &[&str]) -> (String, String) {
    let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, &by.issuer).unwrap().pem(), key.serialize_pem())
}

/// Its certificate is for `localhost`, not for 127.0.0.1.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let root = authority("root");
        let (certificate, key) = signed(&root, "the server", &["localhost"]);
        let files = tempfile::tempdir().unwrap();
        let settings = "ssl = on\nssl_ca_file = 'root.crt'\npassword_encryption = 'scram-sha-256'";
        let put = [("root.crt", &*root.pem), ("server.crt", &certificate), ("server.key", &key), ("pg_hba.conf", HBA)];
        let cluster = Cluster::start_set_up(settings, &put).unwrap();
        write(&files.path().join("root.crt"), &root.pem);
        write(&files.path().join("server.crt"), &certificate);
        write(&files.path().join("other.crt"), &authority("somebody else").pem);
        let (certificate, key) = signed(&root, "ann", &[]);
        write(&files.path().join("ann.crt"), &certificate);
        write(&files.path().join("ann.key"), &key);
        let make = "create role ann login superuser; create role bob login superuser password 'se cret'";
        cluster.psql(&format!("{}?sslmode=require", cluster.url()), make).unwrap();
        Server { cluster, files }
    })
}

/// Whether the connection is encrypted, and as which user it is open.
async fn who(url: &str) -> Result<(bool, String), StoreError> {
    let client = connect(url).await?;
    let row = client
        .query_one("select ssl, current_user::text from pg_stat_ssl where pid = pg_backend_pid()", &[])
        .await
        .expect("an open connection answers");
    Ok((row.get(0), row.get(1)))
}

async fn refusal(url: &str) -> String {
    match who(url).await {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test]
async fn every_sslmode_means_what_libpq_says() {
    let server = server();
    for (host, params) in [
        ("127.0.0.1", ""),
        ("127.0.0.1", "sslmode=allow"),
        ("127.0.0.1", "sslmode=prefer"),
        ("127.0.0.1", "sslmode=require"),
        // A root file that is there is used, but the name is not checked.
        ("127.0.0.1", "sslmode=require&sslrootcert=ROOT"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=ROOT"),
        ("localhost", "sslmode=verify-full&sslrootcert=ROOT"),
        ("localhost", "sslmode=verify-full&sslrootcert=ROOT&ssl_min_protocol_version=TLSv1.3"),
        // The server's own certificate may stand in for its root.
        ("localhost", "sslmode=verify-full&sslrootcert=FOLDER/server.crt"),
        // The name is checked, whatever address it is reached by.
        ("localhost", "sslmode=verify-full&sslrootcert=ROOT&hostaddr=127.0.0.1"),
    ] {
        let url = server.url("postgres", host, params);
        assert_eq!(who(&url).await.unwrap(), (true, "postgres".to_owned()), "{host} {params}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused_with_what_to_do() {
    let server = server();
    for (host, params, says) in [
        ("localhost", "sslmode=disable", "no encryption"),
        ("localhost", "sslmode=verify-ca&sslrootcert=FOLDER/other.crt", "name the file of its root with sslrootcert"),
        ("localhost", "sslmode=verify-full&sslrootcert=FOLDER/other.crt", "name the file of its root with sslrootcert"),
        // As libpq: a root that is there counts for `require` too.
        ("localhost", "sslmode=require&sslrootcert=FOLDER/other.crt", "name the file of its root with sslrootcert"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=ROOT", "subjectAltName"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=FOLDER/server.crt", "subjectAltName"),
        ("localhost", "sslmode=verify-full&sslrootcert=FOLDER/none.crt", "no certificate can be read"),
        ("localhost", "sslmode=require&sslrootcert=system", "sslrootcert=system needs sslmode=verify-full"),
        ("localhost", "sslmode=on", "write disable, allow, prefer, require, verify-ca or verify-full"),
    ] {
        let why = refusal(&server.url("postgres", host, params)).await;
        assert!(why.contains(says), "{host} {params}: {why}");
    }
}

#[tokio::test]
async fn without_a_root_file_this_machines_roots_are_asked() {
    let server = server();
    for params in ["sslmode=verify-full", "sslmode=verify-ca", "sslrootcert=system"] {
        // None of them signed the server's certificate; a machine without roots says that instead.
        let why = refusal(&server.url("postgres", "localhost", params)).await;
        assert!(why.contains("sslrootcert"), "{params}: {why}");
    }
}

#[tokio::test]
async fn a_user_is_known_by_a_client_certificate() {
    let server = server();
    let params = "sslmode=verify-full&sslrootcert=ROOT&sslcert=FOLDER/ann.crt&sslkey=FOLDER/ann.key";
    let url = server.url("ann", "localhost", params);
    assert_eq!(who(&url).await.unwrap(), (true, "ann".to_owned()));
    let why = refusal(&server.url("ann", "localhost", "sslmode=require")).await;
    assert!(why.contains("certificate"), "{why}");
    let why = refusal(&server.url("ann", "localhost", "sslmode=require&sslcert=FOLDER/ann.crt")).await;
    assert!(why.contains("name its file with sslkey"), "{why}");

    let open = server.file("open.key");
    fs::copy(server.file("ann.key"), &open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let params = "sslmode=require&sslcert=FOLDER/ann.crt&sslkey=FOLDER/open.key";
    let why = refusal(&server.url("ann", "localhost", params)).await;
    assert!(why.contains("chmod 600"), "{why}");
}

#[tokio::test]
async fn a_password_is_bound_to_the_channel() {
    let server = server();
    let params = "sslmode=verify-full&sslrootcert=ROOT&channel_binding=require";
    let url = server.url("bob:se%20cret", "localhost", params);
    assert_eq!(who(&url).await.unwrap(), (true, "bob".to_owned()));
    // No password was asked for, and none was bound.
    let why = refusal(&server.url("postgres", "localhost", params)).await;
    assert!(why.contains("channel binding"), "{why}");
}

/// Everything that connects, connects the same way: migrations, every verb, the doorbell, transactions for tasks and the cancel
/// of a statement in one.
#[tokio::test]
async fn all_of_the_store_goes_through_tls() {
    let server = server();
    let database = "create database jobs";
    server.cluster.psql(&server.url("postgres", "localhost", "sslmode=require"), database).unwrap();
    let url = server
        .url("bob:se%20cret", "localhost", "sslmode=verify-full&sslrootcert=ROOT")
        .replace("/postgres?", "/jobs?");
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    let bell = store.bell();
    tokio::time::timeout(std::time::Duration::from_secs(30), bell.news.notified())
        .await
        .expect("the doorbell connects");
    lead(&store, node(1), "alpha").await;
    store.enqueue(vec![job(1)]).await.unwrap();
    assert!(store.job(id(1)).await.unwrap().is_some());

    let transactions = Transactions::new(&url, &Options::default()).unwrap();
    let transaction = transactions.begin(node(1), None, 1).await.unwrap();
    transaction.batch_execute("select 1").await.unwrap();
    let own = connect(&url).await.unwrap();
    let plain = "select count(*) filter (where not ssl), count(*) filter (where ssl) from pg_stat_activity
                   join pg_stat_ssl using (pid) where datname = current_database()";
    let row = own.query_one(plain, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0, "connections without TLS");
    assert!(row.get::<_, i64>(1) >= 5, "submit, node, people, doorbell, task and this one");

    // Dropped in the midst of a statement: the cancel must get through.
    let sleeping = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'";
    let mut sleep = Box::pin(async move { transaction.batch_execute("select pg_sleep(600)").await });
    while own.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(10), &mut sleep).await;
    }
    drop(sleep);
    let patience = std::time::Instant::now();
    while own.query_one(sleeping, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(patience.elapsed().as_secs() < 60, "the statement of a dropped run goes on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_without_tls_is_taken_where_it_may_be() {
    let url = database::fresh_url();
    for mode in ["disable", "allow", "prefer"] {
        assert!(!who(&format!("{url}?sslmode={mode}")).await.unwrap().0, "{mode}");
    }
    for mode in ["require", "verify-ca"] {
        let why = refusal(&format!("{url}?sslmode={mode}")).await;
        assert!(why.contains("set ssl = on there, or write sslmode=prefer"), "{mode}: {why}");
    }
}

use turnwise_testpg::{Cluster, PgBouncer, PoolMode};

use crate::session::Part;

use super::*;

/// All settings that a session got from its client. `current_setting` writes a value as a person does.
const SETTINGS: &str = "select name, current_setting(name) from pg_settings
                     where source in ('client', 'session') and name not in ('client_encoding', 'extra_float_digits')";

fn url() -> String {
    Cluster::shared().url()
}

fn pools(address: &Address, connections: usize) -> Pools {
    Pools::new(address, &Arc::new(Budget::new(connections)), Share::Control)
}

async fn settings(client: &impl tokio_postgres::GenericClient) -> BTreeMap<String, String> {
    client.query(SETTINGS, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn map(settings: &[(&str, &str)]) -> BTreeMap<String, String> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Written out, not computed: what is said here is what a reader of the statements relies on.
fn meant(lock_timeout: &str, plan: &str, joins: &str) -> BTreeMap<String, String> {
    map(&[
        ("application_name", "turnwise"),
        ("default_transaction_isolation", "read committed"),
        ("search_path", "pg_catalog, pg_temp"),
        ("idle_in_transaction_session_timeout", "4s"),
        ("statement_timeout", "30s"),
        ("lock_timeout", lock_timeout),
        ("jit", "off"),
        ("enable_seqscan", "off"),
        ("max_parallel_workers_per_gather", "0"),
        ("plan_cache_mode", plan),
        ("enable_hashjoin", joins),
        ("enable_mergejoin", joins),
    ])
}

#[tokio::test]
async fn every_connection_has_the_settings_that_are_meant() {
    let address = Address::read(&url()).unwrap();
    let pools = pools(&address, 10);
    let (one, new) = ("force_generic_plan", "force_custom_plan");
    let all = [
        ("submit", &pools.submit, meant("1s", "auto", "on")),
        ("unique", &pools.unique, meant("2s", "auto", "on")),
        ("assign", &pools.assign, meant("50ms", one, "off")),
        ("dispatch", &pools.dispatch, meant("10s", one, "off")),
        ("node", &pools.node, meant("10s", one, "off")),
        ("settle", &pools.settle, meant("100ms", one, "off")),
        ("note", &pools.note, meant("10s", new, "off")),
        ("people", &pools.people, meant("10s", new, "off")),
    ];
    for (name, lane, meant) in &all {
        let client = connection(lane).await.unwrap();
        assert_eq!(settings(client.wire().client).await, *meant, "{name}");
    }
    // And when one connection goes from each purpose to each other.
    let few = super::Pools::new(&address, &Arc::new(Budget::new(3)), Share::Callers);
    let lanes = [&few.submit, &few.unique, &few.assign, &few.dispatch, &few.node, &few.settle, &few.note, &few.people];
    let mut backend = None;
    for first in lanes {
        for (second, (name, _, meant)) in lanes.iter().zip(&all) {
            drop(connection(first).await.unwrap());
            let client = connection(second).await.unwrap();
            assert_eq!(settings(client.wire().client).await, *meant, "{name} after {:?}", first.purpose);
            let pid = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0);
            assert_eq!(*backend.get_or_insert(pid), pid, "there is one connection");
        }
    }
    for (purpose, statements, locks) in [(Purpose::Listen, "30s", "10s"), (Purpose::Migrate, "0", "0")] {
        let (client, connection) = address.connect(purpose).await.unwrap();
        tokio::spawn(connection);
        let meant = map(&[
            ("application_name", "turnwise"),
            ("default_transaction_isolation", "read committed"),
            ("search_path", "pg_catalog, pg_temp"),
            ("idle_in_transaction_session_timeout", "4s"),
            ("statement_timeout", statements),
            ("lock_timeout", locks),
        ]);
        assert_eq!(settings(&client).await, meant, "{purpose:?}");
    }
    let tasks = address.pool(Purpose::Task, 1).unwrap();
    let client = pooled(&tasks).await.unwrap();
    assert_eq!(settings(&**client).await, map(&[("application_name", "turnwise")]), "task");
}

/// A pooler in transaction mode refuses settings, or drops them; one in session mode may drop them, too.
#[tokio::test]
async fn behind_a_pooler_each_transaction_has_the_settings_that_are_meant() {
    let ignored = "ignore_startup_parameters = options";
    for (mode, settings) in
        [(PoolMode::Transaction, ""), (PoolMode::Transaction, ignored), (PoolMode::Session, ignored)]
    {
        let pgbouncer = PgBouncer::start(Cluster::shared(), mode, settings).unwrap();
        let address = Address::read(&pgbouncer.url(&url())).unwrap();
        let pools = pools(&address, 10);
        let set =
            |lock_timeout, joins| ["30s", "4s", lock_timeout, "pg_catalog, pg_temp", "off", joins, "read committed"];
        for (lane, meant) in [
            (&pools.submit, set("1s", "on")),
            (&pools.unique, set("2s", "on")),
            (&pools.assign, set("50ms", "off")),
            (&pools.dispatch, set("10s", "off")),
            (&pools.node, set("10s", "off")),
            (&pools.settle, set("100ms", "off")),
            (&pools.note, set("10s", "off")),
            (&pools.people, set("10s", "off")),
        ] {
            let ask = "select array[current_setting('statement_timeout'),
                                    current_setting('idle_in_transaction_session_timeout'),
                                    current_setting('lock_timeout'), current_setting('search_path'),
                                    current_setting('enable_seqscan'), current_setting('enable_hashjoin'),
                                    current_setting('transaction_isolation')]";
            let mut client = connection(lane).await.unwrap();
            let values = |row: tokio_postgres::Row| row.get::<_, Vec<String>>(0);
            assert_eq!(values(client.query_one(ask, &[]).await.unwrap()), meant, "{mode:?}, {settings:?}: alone");
            let both = client.in_one_write("begin", &[Part::of(ask, vec![]), Part::of(ask, vec![])]).await;
            for rows in both.unwrap() {
                assert_eq!(values(rows.into_iter().next().unwrap()), meant, "{mode:?}, {settings:?}: in one write");
            }
            let transaction = client.begin().await.unwrap();
            assert_eq!(
                values(transaction.query_one(ask, &[]).await.unwrap()),
                meant,
                "{mode:?}, {settings:?}: step by step"
            );
        }
        assert!(address.pooled());
        let left = "select current_setting('lock_timeout'), (select count(*) from pg_prepared_statements)";
        let (client, connection) = address.connect(Purpose::Task).await.unwrap();
        tokio::spawn(connection);
        let reply = client.simple_query(left).await.unwrap();
        let row = reply.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0).map(str::to_owned), row.get(1).map(str::to_owned))),
            _ => None,
        });
        let nothing = (Some("0".to_owned()), Some("0".to_owned()));
        assert_eq!(row.unwrap(), nothing, "no setting and no statement is left in the pooler's sessions");
    }
}

#[tokio::test]
async fn behind_a_pooler_the_options_of_the_url_are_refused() {
    let pgbouncer = PgBouncer::start(Cluster::shared(), PoolMode::Transaction, "").unwrap();
    let url = format!("{}?options=-c%20work_mem%3D5MB", pgbouncer.url(&url()));
    let refused = crate::migrate(&url).await.unwrap_err();
    assert!(
        matches!(&refused, StoreError::Refused(why) if why.contains("-c work_mem=5MB") && why.contains("alter role")),
        "{refused}"
    );
}

#[tokio::test]
async fn the_url_overrides_what_is_the_users_and_not_what_statements_rely_on() {
    let asked = "-c statement_timeout=99s -c work_mem=5MB -c lock_timeout=77s -c enable_seqscan=on \
                 -c idle_in_transaction_session_timeout=1h";
    let url = format!("{}?application_name=shop&options={}", url(), asked.replace(' ', "%20").replace('=', "%3D"));
    let address = Address::read(&url).unwrap();
    let found = settings(connection(&pools(&address, 10).assign).await.unwrap().wire().client).await;
    for (name, value) in [
        ("application_name", "shop"),
        ("statement_timeout", "99s"),
        ("work_mem", "5MB"),
        ("lock_timeout", "50ms"),
        ("enable_seqscan", "off"),
        ("idle_in_transaction_session_timeout", "4s"),
    ] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{name}");
    }
}

/// The user, server and database that the url and these variables lead to.
async fn reached(url: &str, variables: &[(&str, &str)]) -> Result<String> {
    let variable =
        |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned());
    let address = Address::read_with(url, &Surroundings { variable: &variable, user: Some("nobody".to_owned()) })?;
    let connected = address.connect(Purpose::People).await;
    let (client, connection) = connected.map_err(|error| refused_or(error, "connect to the database"))?;
    tokio::spawn(connection);
    let who =
        "select format('%s@%s/%s', current_user, coalesce(host(inet_server_addr()), 'socket'), current_database())";
    Ok(client.query_one(who, &[]).await.unwrap().get(0))
}

fn port_of(cluster: &Cluster) -> String {
    let url = cluster.url();
    url.rsplit_once(':').unwrap().1.split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_environment_leads_to_the_database() {
    let port = port_of(Cluster::shared());
    let far = [("PGHOST", "127.0.0.1"), ("PGPORT", &*port), ("PGUSER", "postgres"), ("PGDATABASE", "template1")];
    assert_eq!(reached("postgres://", &far).await.unwrap(), "postgres@127.0.0.1/template1");
    assert_eq!(reached("postgres:///postgres", &far).await.unwrap(), "postgres@127.0.0.1/postgres");
    let require = [&far[..], &[("PGSSLMODE", "require")]].concat();
    let why = reached("postgres://", &require).await.unwrap_err().to_string();
    assert!(why.contains("does not support TLS"), "{why}");
}

/// Its socket is in the folder; over TCP it wants passwords.
fn guarded() -> (Cluster, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let settings = format!("unix_socket_directories = '{}'", folder.path().display());
    let hba = "local all all trust\nhost all all all scram-sha-256";
    let cluster = Cluster::start_set_up(&settings, &[("pg_hba.conf", hba)]).unwrap();
    let socket = format!("postgres://postgres@/postgres?host={}&port={}", folder.path().display(), port_of(&cluster));
    cluster.psql(&socket, "alter role postgres password 'se:cret'").unwrap();
    (cluster, folder)
}

#[tokio::test]
async fn sockets_and_password_files_lead_to_the_database() {
    let (cluster, folder) = guarded();
    let (port, home) = (port_of(&cluster), folder.path().display().to_string());
    let encoded = home.replace('/', "%2F");
    for url in [
        format!("postgres://postgres@{encoded}:{port}/postgres"),
        // A socket is private: no sslmode asks for more.
        format!("postgres://postgres@{encoded}:{port}/postgres?sslmode=verify-full"),
        format!("postgres:///postgres?host={home}&user=postgres&port={port}"),
    ] {
        assert_eq!(reached(&url, &[]).await.unwrap(), "postgres@socket/postgres", "{url}");
    }
    let far = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    let why = reached(&far, &[("HOME", &home)]).await.unwrap_err();
    assert!(matches!(why, StoreError::Refused(_)) && why.to_string().contains("password"), "{why}");
    assert_eq!(reached(&far, &[("PGPASSWORD", "se:cret")]).await.unwrap(), "postgres@127.0.0.1/postgres");
    let file = folder.path().join(".pgpass");
    std::fs::write(&file, format!("127.0.0.1:{port}:postgres:postgres:se\\:cret\n")).unwrap();
    let mode = |mode| std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o644);
    assert!(reached(&far, &[("HOME", &home)]).await.is_err(), "a file that others may read is not used");
    mode(0o600);
    assert_eq!(reached(&far, &[("HOME", &home)]).await.unwrap(), "postgres@127.0.0.1/postgres");
    let named = [("PGPASSFILE", file.to_str().unwrap())];
    assert_eq!(reached(&far, &named).await.unwrap(), "postgres@127.0.0.1/postgres");
}

#[tokio::test]
async fn of_several_hosts_the_one_that_can_be_written_is_taken() {
    let standby = Cluster::start_set_up("default_transaction_read_only = on", &[]).unwrap();
    let (gone, read_only, good) = ("1".to_owned(), port_of(&standby), port_of(Cluster::shared()));
    let url = |ports: &[&String], more: &str| {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("postgres://postgres@{}/postgres?{more}", hosts.join(","))
    };
    let port = async |url: &str| {
        let (client, connection) = Address::read(url).unwrap().connect(Purpose::Task).await?;
        tokio::spawn(connection);
        let port = client.query_one("select inet_server_port()::text", &[]).await.unwrap().get::<_, String>(0);
        Ok::<_, tokio_postgres::Error>(port)
    };
    assert_eq!(port(&url(&[&gone, &read_only, &good], "")).await.unwrap(), read_only);
    for attrs in ["target_session_attrs=read-write", "target_session_attrs=primary"] {
        assert_eq!(port(&url(&[&gone, &read_only, &good], attrs)).await.unwrap(), good);
    }
    let none = port(&url(&[&gone, &read_only], "target_session_attrs=read-write")).await.unwrap_err();
    let none = refused_or(none, "connect to the database");
    assert!(none.is_transient() && none.to_string().contains("does not allow writes"), "{none}");
    // If one server refuses the user, the others are not tried.
    let wrong = url(&[&good, &good], "").replace("/postgres?", "/no_such_database?");
    assert_eq!(port(&wrong).await.unwrap_err().code(), Some(&SqlState::INVALID_CATALOG_NAME));
    let refused = Address::read(&url(&[&good], "target_session_attrs=standby")).unwrap_err();
    assert!(refused.to_string().contains("write read-write, primary or any"), "{refused}");
}

#[tokio::test]
async fn the_urls_options_reach_tasks_as_they_are() {
    let url = format!("{}?options=-c%20lock_timeout%3D77s", url());
    let pool = Address::read(&url).unwrap().pool(Purpose::Task, 1).unwrap();
    let found = settings(&**pooled(&pool).await.unwrap()).await;
    assert_eq!(found, map(&[("application_name", "turnwise"), ("lock_timeout", "77s")]));
}

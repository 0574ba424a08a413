//! Where a server may be: the hosts, ports and passwords of a url, as libpq reads them.

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    time::Duration,
};

use tokio_postgres::{
    Config,
    config::{ChannelBinding, SslNegotiation, TargetSessionAttrs},
};
use turnwise_store::{Result, StoreError};

use super::{
    params::{Params, Surroundings, invalid},
    passfile::{self, Login},
};

pub(super) struct Endpoint {
    pub(super) config: Config,
    /// A socket file, which needs no encryption: its traffic is on no network.
    pub(super) socket: bool,
}

/// Hosts, ports and passwords, one endpoint each.
pub(super) fn endpoints(params: &Params, around: &Surroundings<'_>) -> Result<Vec<Endpoint>> {
    let (hosts, addresses, ports) = (params.list("host"), params.list("hostaddr"), params.list("port"));
    let count = hosts.len().max(addresses.len()).max(1);
    let counts = [("hosts", hosts.len()), ("hostaddrs", addresses.len())];
    if let Some((what, found)) = counts.iter().find(|(_, found)| *found > 1 && *found != count) {
        return Err(StoreError::Refused(format!("the database url names {found} {what}, and {count} of the others")));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(StoreError::Refused(format!("the database url names {} ports for {count} hosts", ports.len())));
    }
    let user = params.get("user").map(str::to_owned).or_else(|| around.user.clone());
    let user = user.ok_or_else(|| StoreError::Refused("the database url names no user".to_owned()))?;
    let database = params.get("dbname").unwrap_or(&user);
    let passwords = params.get("password").is_none().then(|| passfile::read(params, around)).flatten();
    let mut endpoints = Vec::with_capacity(count);
    for at in 0..count {
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or_default();
        let port = match port.trim() {
            "" => 5432,
            port => port.parse().map_err(|_| invalid("port", port, "write a number below 65536"))?,
        };
        let address = addresses.get(at).copied().filter(|address| !address.is_empty());
        let named = hosts.get(at).copied().filter(|host| !host.is_empty());
        let host = named.or(address).map_or_else(|| usual_host(port), str::to_owned);
        let mut config = Config::new();
        let socket = host.starts_with('/');
        if socket {
            config.host_path(&host);
        } else {
            config.host(&host);
        }
        if let Some(address) = address.filter(|_| !socket) {
            config.hostaddr(address.parse().map_err(|_| invalid("hostaddr", address, "write an IP address"))?);
        }
        config.port(port).user(&user).dbname(database);
        let login = Login { host: &host, port, database, user: &user };
        let kept = || passwords.as_deref().and_then(|text| passfile::password(text, login));
        if let Some(password) = params.get("password").map(str::to_owned).or_else(kept) {
            config.password(password);
        }
        endpoints.push(Endpoint { config, socket });
    }
    match params.get("load_balance_hosts") {
        None | Some("disable") => {}
        // Each hasher has keys of its own: chance enough for an order.
        Some("random") => endpoints.sort_by_cached_key(|_| RandomState::new().hash_one(0)),
        Some(other) => return Err(invalid("load_balance_hosts", other, "write disable or random")),
    }
    Ok(endpoints)
}

/// Where the server is when no host is named: as libpq, its socket; and this machine's port where there is none.
fn usual_host(port: u16) -> String {
    let socket = |folder: &&&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    passfile::SOCKET_FOLDERS.iter().find(socket).map_or_else(|| "localhost".to_owned(), |folder| (*folder).to_owned())
}

pub(super) fn set_common(config: &mut Config, params: &Params, patience: Duration) -> Result<()> {
    let name = params.get("application_name").or_else(|| params.get("fallback_application_name"));
    config.application_name(name.unwrap_or("turnwise")).connect_timeout(patience);
    let seconds = |name: &str, usual: u64| {
        Ok::<_, StoreError>(Duration::from_secs(params.number(name)?.filter(|asked| *asked > 0).unwrap_or(usual)))
    };
    let retries = params.number("keepalives_retries")?.or(params.number("keepalives_count")?);
    let user_timeout = params.number("tcp_user_timeout")?.map_or(Duration::from_secs(20), Duration::from_millis);
    config
        .keepalives(params.number::<i32>("keepalives")? != Some(0))
        .keepalives_idle(seconds("keepalives_idle", 10)?)
        .keepalives_interval(seconds("keepalives_interval", 5)?)
        .keepalives_retries(retries.unwrap_or(3))
        .tcp_user_timeout(user_timeout);
    match params.get("target_session_attrs") {
        None | Some("any") => {}
        Some("read-write" | "primary") => _ = config.target_session_attrs(TargetSessionAttrs::ReadWrite),
        Some(other) => {
            let instead = "jobs are written; write read-write, primary or any";
            return Err(invalid("target_session_attrs", other, instead));
        }
    }
    match params.get("channel_binding") {
        None | Some("prefer") => {}
        Some("disable") => _ = config.channel_binding(ChannelBinding::Disable),
        Some("require") => _ = config.channel_binding(ChannelBinding::Require),
        Some(other) => return Err(invalid("channel_binding", other, "write disable, prefer or require")),
    }
    match params.get("sslnegotiation") {
        None | Some("postgres") => {}
        Some("direct") => _ = config.ssl_negotiation(SslNegotiation::Direct),
        Some(other) => return Err(invalid("sslnegotiation", other, "write postgres or direct")),
    }
    match params.get("gssencmode") {
        None | Some("disable" | "prefer") => {}
        Some(other) => return Err(invalid("gssencmode", other, "GSSAPI is not spoken here; leave it out")),
    }
    match params.get("client_encoding") {
        None => Ok(()),
        Some(encoding) if ["utf8", "utf-8", "unicode", "auto"].contains(&encoding.to_ascii_lowercase().as_str()) => {
            Ok(())
        }
        Some(other) => Err(invalid("client_encoding", other, "everything travels as UTF8; leave it out")),
    }
}

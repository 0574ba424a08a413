//! What a url says of connections, and what the environment says where the url is silent: the words and rules of libpq,
//! PostgreSQL's own client library.

use std::{collections::BTreeMap, path::PathBuf};

use turnwise_store::{Result, StoreError};

/// A parameter, and the variable that stands in for it.
const KNOWN: [(&str, Option<&str>); 34] = [
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("options", Some("PGOPTIONS")),
    ("application_name", Some("PGAPPNAME")),
    ("fallback_application_name", None),
    ("client_encoding", Some("PGCLIENTENCODING")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_retries", None),
    ("keepalives_count", None),
    ("tcp_user_timeout", None),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslnegotiation", Some("PGSSLNEGOTIATION")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslpassword", None),
    ("sslcrl", Some("PGSSLCRL")),
    ("sslcrldir", Some("PGSSLCRLDIR")),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    ("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("require_auth", Some("PGREQUIREAUTH")),
    // Not libpq's: `transaction` where a pooler gives each transaction another session, and cannot be recognised.
    ("pooler", None),
];

/// Parameters that must not be ignored, and that this program cannot honour. Refused rather than left out in silence.
const NOT_HERE: [(&str, &str); 6] = [
    ("sslpassword", "decrypt the key with `openssl pkey -in KEY -out PLAIN` and name that file in sslkey"),
    ("sslcrl", "revocation lists are not supported; leave it out"),
    ("sslcrldir", "revocation lists are not supported; leave it out"),
    ("ssl_max_protocol_version", "TLS 1.2 and 1.3 are what is spoken; leave it out"),
    ("require_auth", "leave it out; channel_binding=require demands SCRAM over TLS"),
    ("service", "service files are not read; write its parameters into the url"),
];

/// Parameters by libpq's names.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Params(BTreeMap<String, String>);

/// The surroundings of the process, as values: tests have their own.
pub(crate) struct Surroundings<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// The user that runs the process.
    pub(crate) user: Option<String>,
}

impl Surroundings<'_> {
    pub(crate) fn home(&self) -> Option<PathBuf> {
        (self.variable)("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
    }
}

impl Params {
    /// Reads `postgres://…`, or `name=value …`; what it leaves out comes from the environment.
    pub(crate) fn read(url: &str, around: &Surroundings<'_>) -> Result<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let mut params = Self::default();
        match rest {
            Some(rest) => params.read_url(rest),
            None => params.read_words(url),
        }
        .map_err(|problem| StoreError::Refused(format!("the url cannot be read: {problem}")))?;
        for (name, variable) in KNOWN {
            if params.get(name).is_none()
                && let Some(value) = variable.and_then(|variable| (around.variable)(variable))
            {
                params.0.insert(name.to_owned(), value);
            }
        }
        match NOT_HERE.iter().find(|(name, _)| params.get(name).is_some()) {
            Some((name, what_to_do)) => Err(StoreError::Refused(format!("{name} has no effect here: {what_to_do}"))),
            None => Ok(params),
        }
    }

    /// An empty value counts as none.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The parts of a list; empty ones count.
    pub(crate) fn list(&self, name: &str) -> Vec<&str> {
        self.get(name).map_or_else(Vec::new, |list| list.split(',').collect())
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.trim().parse().map_err(|_| invalid(name, text, "write a whole number"));
        self.get(name).map(parse).transpose()
    }

    fn set(&mut self, name: &str, value: String) -> std::result::Result<(), String> {
        let known = KNOWN.iter().map(|(known, _)| known).chain(NOT_HERE.iter().map(|(known, _)| known));
        if !known.into_iter().any(|known| *known == name) {
            return Err(format!("there is no parameter {name:?}"));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    /// `[USER[:PASSWORD]@][HOST[:PORT],…][/DATABASE][?NAME=VALUE&…]`
    fn read_url(&mut self, rest: &str) -> std::result::Result<(), String> {
        let rest = match rest.find(['@', '/']) {
            Some(at) if rest[at..].starts_with('@') => {
                let (user, password) =
                    rest[..at].split_once(':').map_or((&rest[..at], None), |(user, word)| (user, Some(word)));
                self.set("user", decode(user)?)?;
                if let Some(password) = password {
                    self.set("password", decode(password)?)?;
                }
                &rest[at + 1..]
            }
            _ => rest,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (hosts, rest) = rest.split_at(end);
        if !hosts.is_empty() {
            let places: Vec<(&str, &str)> =
                hosts.split(',').map(host_and_port).collect::<std::result::Result<_, _>>()?;
            let join = |parts: Vec<&str>| decode(&parts.join(","));
            self.set("host", join(places.iter().map(|(host, _)| *host).collect())?)?;
            if places.iter().any(|(_, port)| !port.is_empty()) {
                self.set("port", join(places.iter().map(|(_, port)| *port).collect())?)?;
            }
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if let Some(database) = path.strip_prefix('/').filter(|database| !database.is_empty()) {
            self.set("dbname", decode(database)?)?;
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} has no value"))?;
            match (decode(name)?.as_str(), decode(value)?.as_str()) {
                // As libpq takes it from JDBC.
                ("ssl", "true") => self.set("sslmode", "require".to_owned())?,
                (name, value) => self.set(name, value.to_owned())?,
            }
        }
        Ok(())
    }

    /// `name = value name = 'va\'lue'`
    fn read_words(&mut self, text: &str) -> std::result::Result<(), String> {
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or_else(|| format!("{:?} has no value", rest.trim_end()))?;
            let (value, after) = word(after.trim_start())?;
            self.set(name.trim(), value)?;
            rest = after.trim_start();
        }
        Ok(())
    }
}

/// A value that is not understood, and what to write instead.
pub(crate) fn invalid(name: &str, value: &str, instead: &str) -> StoreError {
    StoreError::Refused(format!("the url cannot be read: {name}={value}: {instead}"))
}

fn host_and_port(place: &str) -> std::result::Result<(&str, &str), String> {
    if let Some(bracketed) = place.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').ok_or_else(|| format!("{place:?} lacks a closing bracket"))?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, port)),
            None if after.is_empty() => Ok((host, "")),
            None => Err(format!("{place:?} is no host and port")),
        };
    }
    Ok(place.split_once(':').unwrap_or((place, "")))
}

/// The first value of `text`, quoted or up to a space, and what follows it.
fn word(text: &str) -> std::result::Result<(String, &str), String> {
    let (quoted, body) = text.strip_prefix('\'').map_or((false, text), |body| (true, body));
    let mut value = String::new();
    let mut letters = body.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            letter if letter.is_whitespace() && !quoted => return Ok((value, &body[at..])),
            letter => value.push(letter),
        }
    }
    if quoted { Err("a closing quote is missing".to_owned()) } else { Ok((value, "")) }
}

fn decode(text: &str) -> std::result::Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()));
        match code {
            None => bytes.push(*first),
            Some(hex) => {
                let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|byte| *byte != 0);
                bytes.push(byte.ok_or("a % must be followed by two hexadecimal digits; write %25 for it")?);
            }
        }
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 where it is percent-encoded".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(url: &str, variables: &[(&str, &str)]) -> Result<Params> {
        let variable =
            |name: &str| variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned());
        Params::read(url, &Surroundings { variable: &variable, user: Some("me".to_owned()) })
    }

    fn read(url: &str) -> Vec<(String, String)> {
        with(url, &[]).unwrap().0.into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_url_is_read_as_libpq_reads_it() {
        for (url, meant) in [
            ("postgres://", vec![]),
            ("postgresql://db", vec![("host", "db")]),
            (
                "postgres://ann:s%40c%3Aret@db:7/jobs",
                vec![("dbname", "jobs"), ("host", "db"), ("password", "s@c:ret"), ("port", "7"), ("user", "ann")],
            ),
            ("postgres://a:1,b,[::1]:3/x", vec![("dbname", "x"), ("host", "a,b,::1"), ("port", "1,,3")]),
            ("postgres:///x?host=/run/a%20b&user=c@d", vec![("dbname", "x"), ("host", "/run/a b"), ("user", "c@d")]),
            ("postgres://%2Frun%2Fpg/x?ssl=true", vec![("dbname", "x"), ("host", "/run/pg"), ("sslmode", "require")]),
            (
                "postgres://db?sslmode=verify-full&sslrootcert=system",
                vec![("host", "db"), ("sslmode", "verify-full"), ("sslrootcert", "system")],
            ),
        ] {
            assert_eq!(read(url), pairs(&meant), "{url}");
        }
    }

    #[test]
    fn words_are_read_as_libpq_reads_them() {
        let meant = [("dbname", "jobs"), ("host", "a,b"), ("password", "it's a \\"), ("user", "ann")];
        assert_eq!(read(r"host=a,b  dbname = 'jobs' password='it\'s a \\' user=ann "), pairs(&meant));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        for (url, says) in [
            ("postgres://db/x?sslmod=require", "there is no parameter \"sslmod\""),
            ("postgres://db/x?sslmode", "\"sslmode\" has no value"),
            ("postgres://db/%zz", "two hexadecimal digits"),
            ("postgres://[::1/x", "lacks a closing bracket"),
            ("host='a", "a closing quote is missing"),
            ("nonsense", "\"nonsense\" has no value"),
            ("postgres://db?sslcrl=a.crl", "revocation lists are not supported"),
            ("postgres://db?sslpassword=x", "openssl pkey"),
            ("postgres://db?service=x", "write its parameters into the url"),
        ] {
            let Err(error) = with(url, &[]) else { panic!("{url} was taken") };
            assert!(matches!(error, StoreError::Refused(_)) && error.to_string().contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn the_environment_fills_in_what_the_url_leaves_out() {
        let variables =
            [("PGHOST", "far"), ("PGPORT", "77"), ("PGPASSWORD", "word"), ("PGSSLMODE", "require"), ("PGUSER", "bob")];
        let params = with("postgres://ann@/jobs?port=", &variables).unwrap();
        let found = ["host", "port", "password", "sslmode", "user", "dbname"].map(|name| params.get(name).unwrap());
        assert_eq!(found, ["far", "77", "word", "require", "ann", "jobs"]);
    }
}

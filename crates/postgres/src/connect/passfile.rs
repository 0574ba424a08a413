//! Passwords that are kept in a file of their own, `~/.pgpass`: one line for each place,
//! `host:port:database:user:password`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::params::{Params, Surroundings};

/// Where libpq's socket is when no other folder is named; such a place is called `localhost` in the file.
pub(super) const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// What a password is looked up by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) database: &'a str,
    pub(crate) user: &'a str,
}

/// The file's text, if there is one and no other user may read it.
pub(crate) fn read(params: &Params, around: &Surroundings<'_>) -> Option<String> {
    let named = params.get("passfile").map(PathBuf::from);
    let path = named.or_else(|| Some(around.home()?.join(".pgpass")))?;
    match open_to_others(&path) {
        Ok(false) => {}
        Ok(true) => {
            let path = path.display();
            tracing::warn!("{path} is not used: others may read the passwords in it; run `chmod 600 {path}`");
            return None;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "{} is not used", path.display());
            return None;
        }
    }
    fs::read_to_string(&path).map_err(|error| tracing::warn!(%error, "{} is not used", path.display())).ok()
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// As libpq: where there are no such modes, the folder is protected.
#[cfg(not(unix))]
fn open_to_others(path: &Path) -> io::Result<bool> {
    fs::metadata(path).map(|_| false)
}

/// The password of the first line that fits.
pub(crate) fn password(text: &str, login: Login<'_>) -> Option<String> {
    let host = if SOCKET_FOLDERS.contains(&login.host) { "localhost" } else { login.host };
    let port = login.port.to_string();
    let wanted = [host, &port, login.database, login.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = Fields(line);
        let fits = wanted.iter().all(|wanted| fields.next().is_some_and(|field| field.fits(wanted)));
        let password = fits.then(|| fields.next()).flatten()?.plain;
        (!password.is_empty()).then_some(password)
    })
}

/// Parts between colons; a backslash takes the next letter as it is.
struct Fields<'a>(&'a str);

struct Field {
    plain: String,
    any: bool,
}

impl Field {
    fn fits(&self, wanted: &str) -> bool {
        self.any || self.plain == wanted
    }
}

impl Iterator for Fields<'_> {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        let mut plain = String::new();
        let mut letters = self.0.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => plain.extend(letters.next().map(|(_, letter)| letter)),
                ':' => {
                    let any = &self.0[..at] == "*";
                    self.0 = &self.0[at + 1..];
                    return Some(Field { plain, any });
                }
                letter => plain.push(letter),
            }
        }
        let any = self.0 == "*";
        self.0 = "";
        Some(Field { plain, any })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# kept by hand\n\
                        db:5432:jobs:ann:first\n\
                        db:*:jobs:*:se\\:co\\\\nd\n\
                        localhost:*:*:ann:by socket\n\
                        ::1:1:x:y:never reached\n\
                        \\:\\:1:1:x:y:six\n\
                        *:*:*:bob:anywhere";

    fn found(host: &str, port: u16, database: &str, user: &str) -> Option<String> {
        password(FILE, Login { host, port, database, user })
    }

    #[test]
    fn the_first_line_that_fits_is_taken() {
        assert_eq!(found("db", 5432, "jobs", "ann").unwrap(), "first");
        assert_eq!(found("db", 7, "jobs", "ann").unwrap(), "se:co\\nd");
        assert_eq!(found("/var/run/postgresql", 5432, "x", "ann").unwrap(), "by socket");
        assert_eq!(found("::1", 1, "x", "y").unwrap(), "six");
        assert_eq!(found("far", 1, "x", "bob").unwrap(), "anywhere");
        assert_eq!(found("far", 1, "x", "ann"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("turnwise-pgpass-{}", std::process::id()));
        fs::write(&path, FILE).unwrap();
        let around = Surroundings { variable: &|_| None, user: None };
        let params = Params::read(&format!("passfile={}", path.display()), &around).unwrap();
        let used = [0o640, 0o604, 0o600].map(|mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&params, &around).is_some()
        });
        fs::remove_file(&path).unwrap();
        assert_eq!(used, [false, false, true]);
    }
}

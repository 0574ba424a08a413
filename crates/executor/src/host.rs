//! Which process this is, exactly enough to find out later whether it is gone.

use std::{fmt, fs, sync::Arc};

use turnwise_core::node::Host;

/// A process, as it presents itself to the fleet and as it sees others on its machine.
#[derive(Clone)]
pub struct Process {
    pub host: Host,
    /// Whether a process is certainly no longer running.
    pub is_gone: Arc<dyn Fn(&Host) -> bool + Send + Sync>,
}

impl Process {
    pub(crate) fn this() -> Self {
        let host = this();
        let here = host.clone();
        Self { host, is_gone: Arc::new(move |other| is_gone(other, &here)) }
    }

    pub(crate) fn is_gone(&self, other: &Host) -> bool {
        (self.is_gone)(other)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.host, f)
    }
}

/// This process. Where there is no `/proc` the boot id is empty, and no node takes it for a process of the same machine.
fn this() -> Host {
    Host {
        name: name(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        pid_namespace: fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default(),
        pid: std::process::id(),
        started: started(std::process::id()).unwrap_or(0),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

/// Whether `other`, seen from `here`, is certainly no longer running.
fn is_gone(other: &Host, here: &Host) -> bool {
    here.shares_process_table_with(other) && started(other.pid) != Some(other.started)
}

/// The machine's name, the default name of a node.
pub(crate) fn name() -> String {
    let name = read("/proc/sys/kernel/hostname");
    if name.is_empty() { std::env::var("HOSTNAME").unwrap_or_else(|_| "node".to_owned()) } else { name }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// When a process began, in clock ticks since boot. The program's name stands in brackets and may hold anything, so
/// the fields are counted from the last bracket.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    // A zombie holds its pid until it is waited for, but runs nothing any more.
    let mut fields = rest.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_is_not_gone_and_a_dead_one_is() {
        let here = this();
        assert!(here.started > 0 && !here.boot_id.is_empty(), "{here:?}");
        assert!(!is_gone(&here, &here));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = Host { pid: child.id(), started: 1, ..here.clone() };
        child.wait().unwrap();
        assert!(is_gone(&dead, &here));
        let elsewhere = Host { boot_id: "other".into(), ..dead };
        assert!(!is_gone(&elsewhere, &here));
    }
}

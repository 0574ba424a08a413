//! A program and whatever it starts, as one process group that ends as a whole.

use std::{io, process::ExitStatus};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
};

/// A running process group. Dropped, it is killed at once: a run that is cut short leaves nothing behind.
#[derive(Debug)]
pub(super) struct Group {
    /// Also the group's number.
    leader: Pid,
    child: Child,
    /// A child of this process has ended; it may be this group's leader.
    ends: unix::Signal,
    /// The leader's status has been fetched, so its number may already belong to another process.
    reaped: bool,
}

impl Group {
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        // Listening before starting: an end right after the start is not missed.
        let ends = unix::signal(SignalKind::child())?;
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let leader = id.ok_or_else(|| io::Error::other("the new process has no number"))?;
        Ok(Self { leader, child, ends, reaped: false })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Asks all of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the leader has ended.
    ///
    /// Safe to drop and call again. The leader's status is not fetched: as long as it is not, its number is not given to
    /// another process, and [`Group::end`] cannot kill one that is not ours.
    pub(super) async fn leader_ended(&mut self) {
        while self.leader_runs() && self.ends.recv().await.is_some() {}
    }

    fn leader_runs(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(self.leader), look) {
            Ok(status) => status.is_none(),
            Err(error) => error == Errno::INTR,
        }
    }

    /// Kills what the leader has left behind, and returns how the leader itself has ended.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.child.try_wait();
        // An error means that other code in this program has fetched it.
        self.reaped = !matches!(status, Ok(None));
        status?.ok_or_else(|| io::Error::other("its status cannot be read"))
    }

    fn signal(&self, signal: Signal) {
        // A group that is gone already is what was wanted.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            // The child's own drop leaves the status to be fetched by the runtime.
            self.signal(Signal::KILL);
        }
    }
}

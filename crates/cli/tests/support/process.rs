//! A process that the test has started.

use std::{
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use super::wait::until_within;

/// Killed when it is dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// `kill -9`, and it is gone.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    pub(crate) fn exit_within(&mut self, limit: Duration, name: &str) -> ExitStatus {
        until_within(limit, &format!("the end of {name}"), || self.0.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended already is not an error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name}");
}

//! The names of settings, by their table of the file.

/// Settings of every command; at the top of the file.
pub(super) const COMMON: [&str; 5] = ["database", "log", "log_format", "connections", "task_connections"];

/// Settings of a node; in the file's `[executor]`.
pub(super) const EXECUTOR: [&str; 13] = [
    "name",
    "core_pool_size",
    "max_pool_size",
    "thread_name_prefix",
    "queue_capacity",
    "batch_size",
    "poll_interval",
    "look_every",
    "lease",
    "wait_for_tasks_on_shutdown",
    "await_termination",
    "queues",
    "migrate",
];

/// Settings of the HTTP API; in the file's `[server]`.
pub(super) const SERVER: [&str; 7] =
    ["listen", "tls_cert", "tls_key", "plain_http", "allow_origin", "embed_origin", "trust_proxy"];

/// Settings of commands that ask a server; in the file's `[client]`.
pub(super) const CLIENT: [&str; 4] = ["server", "token", "server_ca", "server_plain_http"];

/// The tables of the file, as a person writes them.
pub(super) const TABLES: [&str; 5] = ["client", "executor", "pools", "server", "tasks"];

/// Another name of TURNWISE_CORE_POOL_SIZE, as --slots is of --core-pool-size.
pub(super) const SLOTS: &str = "TURNWISE_SLOTS";

/// The variable that names the file.
pub(super) const CONFIG: &str = "TURNWISE_CONFIG";

/// Former settings of a node that are now set for all nodes at once.
pub(super) const MOVED: [&str; 2] = ["retention", "scheme"];

/// The variable of a setting.
pub(super) fn variable(key: &str) -> String {
    format!("TURNWISE_{}", key.to_uppercase())
}

/// What is said about a setting of [`MOVED`].
pub(super) fn moved(key: &str) -> String {
    format!("{key} is set for all nodes at once; use: turnwise installation set --{key} …")
}

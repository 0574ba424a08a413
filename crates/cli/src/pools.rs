//! `[pools.NAME]` of the settings file: slots, a buffer and threads for some queues alone.

use turnwise::{Invalid, Pool};
use turnwise_core::time::parse_span;

use crate::settings::{Said, number, truth};

pub(crate) const KEYS: [&str; 9] = [
    "queues",
    "core_pool_size",
    "max_pool_size",
    "queue_capacity",
    "batch_size",
    "poll_interval",
    "thread_name_prefix",
    "wait_for_tasks_on_shutdown",
    "await_termination",
];

pub(crate) fn read(said: &Said) -> Result<Pool, Invalid> {
    let mut pool = Pool::default();
    for (&key, texts) in said {
        let text = texts.first().map_or("", String::as_str);
        pool = match key {
            "queues" => pool.queues(texts),
            "core_pool_size" => pool.core_pool_size(number(key, text)?),
            "max_pool_size" => pool.max_pool_size(number(key, text)?),
            "queue_capacity" => pool.queue_capacity(number(key, text)?),
            "batch_size" => pool.batch_size(number(key, text)?),
            "poll_interval" => pool.poll_interval(parse_span(key, text)?),
            "thread_name_prefix" => pool.thread_name_prefix(text),
            "wait_for_tasks_on_shutdown" => pool.wait_for_tasks_on_shutdown(truth(key, text)?),
            "await_termination" => pool.await_termination(parse_span(key, text)?),
            _ => pool,
        };
    }
    Ok(pool)
}

//! How much is done: more with `TURNWISE_FULL=1`.

pub(crate) fn full() -> bool {
    std::env::var_os("TURNWISE_FULL").is_some_and(|value| value == "1")
}

pub(crate) fn number(usual: usize, full: usize) -> usize {
    if self::full() { full } else { usual }
}

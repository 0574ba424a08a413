//! W3C trace context: which trace of its submitter a job belongs to, carried from the submit to the run
//! (<https://www.w3.org/TR/trace-context/>).

use std::fmt;

use crate::name::Invalid;

/// Longest `tracestate` that is kept; the recommendation asks for at least that.
const MAX_STATE_BYTES: usize = 512;
/// Most entries of a `tracestate`.
const MAX_ENTRIES: usize = 32;
/// `00-` and 32, `-` and 16, `-` and 2 digits.
const PARENT_BYTES: usize = 55;

/// A place in a trace: `traceparent`, and what other systems say about it in `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Of version 00.
    parent: String,
    state: Option<String>,
}

impl TraceContext {
    /// From the texts of a caller that names them on purpose. Refuses, naming the field, what is not of the recommendation's form.
    pub fn new(parent: &str, state: Option<&str>) -> Result<Self, Invalid> {
        let form = "must be like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent =
            read_parent(parent).ok_or_else(|| Invalid::new("traceparent", format!("{form}, not {parent:?}")))?;
        let state = match state.map(str::trim).filter(|state| !state.is_empty()) {
            None => None,
            Some(state) => {
                let bad = || {
                    Invalid::new("tracestate", format!("is not a list of at most {MAX_ENTRIES} entries like key=value"))
                };
                let entries = read_state(state).ok_or_else(bad)?.join(",");
                if entries.len() > MAX_STATE_BYTES {
                    return Err(Invalid::new("tracestate", format!("has more than {MAX_STATE_BYTES} bytes")));
                }
                Some(entries).filter(|entries| !entries.is_empty())
            }
        };
        Ok(Self { parent, state })
    }

    /// From the headers of a request, as the recommendation says: without a good `traceparent` there is none, and a `tracestate` that is
    /// bad is left out. Of one that is too long the last entries are.
    pub fn from_headers<'a>(parents: &[&str], states: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let [parent] = parents else { return None };
        let parent = read_parent(parent)?;
        let state = states.into_iter().collect::<Vec<_>>().join(",");
        let mut entries = read_state(&state).unwrap_or_default();
        while entries.iter().map(|entry| entry.len() + 1).sum::<usize>() > MAX_STATE_BYTES + 1 {
            entries.pop();
        }
        Some(Self { parent, state: Some(entries.join(",")).filter(|state| !state.is_empty()) })
    }

    /// As the header and the variable have it.
    pub fn traceparent(&self) -> &str {
        &self.parent
    }

    /// As the header and the variable have it.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// 32 hexadecimal digits, the same for the whole trace.
    pub fn trace_id(&self) -> &str {
        &self.parent[3..35]
    }

    /// 16 hexadecimal digits: the span that submitted the job.
    pub fn parent_id(&self) -> &str {
        &self.parent[36..52]
    }

    /// Whether the submitter records the trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.parent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parent)
    }
}

/// Of version 00, or of a later one as far as version 00 goes.
fn read_parent(text: &str) -> Option<String> {
    let text = text.trim();
    let known = text.get(..PARENT_BYTES)?;
    let later = text.get(PARENT_BYTES..)?;
    let parts: Vec<&str> = known.split('-').collect();
    let [version, trace, parent, flags] = parts.as_slice() else { return None };
    let digits = |part: &str, count: usize| {
        part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let zeros = |part: &str| part.bytes().all(|byte| byte == b'0');
    let good = digits(version, 2) && digits(trace, 32) && digits(parent, 16) && digits(flags, 2);
    let grows = if *version == "00" { later.is_empty() } else { later.is_empty() || later.starts_with('-') };
    (good && grows && *version != "ff" && !zeros(trace) && !zeros(parent)).then(|| format!("00{}", &known[2..]))
}

/// The entries of a list; `None`: it is not one.
fn read_state(text: &str) -> Option<Vec<&str>> {
    let mut keys = Vec::new();
    let mut entries = Vec::new();
    for entry in text.split(',').map(|entry| entry.trim_matches([' ', '\t'])).filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=')?;
        if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == MAX_ENTRIES {
            return None;
        }
        keys.push(key);
        entries.push(entry);
    }
    Some(entries)
}

fn is_key(key: &str) -> bool {
    let begins = |part: &str, digit: bool| {
        part.bytes().next().is_some_and(|first| first.is_ascii_lowercase() || digit && first.is_ascii_digit())
    };
    let goes_on = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte))
    };
    match key.split_once('@') {
        None => key.len() <= 256 && begins(key, true) && goes_on(key),
        Some((tenant, system)) => {
            let short = tenant.len() <= 241 && system.len() <= 14;
            short && begins(tenant, true) && goes_on(tenant) && begins(system, false) && goes_on(system)
        }
    }
}

fn is_value(value: &str) -> bool {
    let good = |byte: u8| (0x20..=0x7e).contains(&byte) && byte != b',' && byte != b'=';
    !value.is_empty() && value.len() <= 256 && value.bytes().all(good) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_kept_to_the_letter() {
        let context = TraceContext::new(PARENT, Some("rojo=00f067aa0ba902b7, congo@a=t61rcWkgMzE")).unwrap();
        assert_eq!(context.traceparent(), PARENT);
        assert_eq!(context.tracestate(), Some("rojo=00f067aa0ba902b7,congo@a=t61rcWkgMzE"));
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((context.parent_id(), context.is_sampled()), ("b7ad6b7169203331", true));
        assert!(!TraceContext::new(&PARENT.replace("-01", "-00"), None).unwrap().is_sampled());
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for later in
            ["cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-else", &PARENT.replace("00-0a", "01-0a")]
        {
            assert_eq!(TraceContext::new(later, None).unwrap().traceparent(), PARENT);
        }
    }

    #[test]
    fn what_is_no_context_is_refused_by_name_and_left_out_of_headers() {
        let bad = [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replace("00-0a", "ff-0a"),
            &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &PARENT.replace("b7ad6b7169203331", &"0".repeat(16)),
            &format!("{PARENT}-00"),
            &format!("{PARENT}x"),
            &PARENT.replace("-01", "-1é"),
            &PARENT.replace("-01", "_01"),
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what",
        ];
        for text in bad {
            assert!(TraceContext::new(text, None).unwrap_err().to_string().starts_with("traceparent: "), "{text}");
            assert_eq!(TraceContext::from_headers(&[text], []), None, "{text}");
        }
        assert_eq!(TraceContext::from_headers(&[], ["a=1"]), None);
        assert_eq!(TraceContext::from_headers(&[PARENT, PARENT], []), None, "which of them?");
        let long = format!("a={}", "x".repeat(257));
        for state in ["a", "A=1", "a=1,a=2", "=1", "a=", "a=é", "a=1=2", "a@=1", "@a=1", &long] {
            let refusal = TraceContext::new(PARENT, Some(state)).unwrap_err().to_string();
            assert!(refusal.starts_with("tracestate: "), "{state}: {refusal}");
            let context = TraceContext::from_headers(&[PARENT], [state]).unwrap();
            assert_eq!((context.traceparent(), context.tracestate()), (PARENT, None), "{state}");
        }
    }

    #[test]
    fn states_of_several_headers_are_one_list_that_ends_where_it_is_too_long() {
        let context = TraceContext::from_headers(&[PARENT], ["a=1, ,b=2", "c=3"]).unwrap();
        assert_eq!(context.tracestate(), Some("a=1,b=2,c=3"));
        let entries: Vec<_> = (0..10).map(|n| format!("k{n}={}", "x".repeat(97))).collect();
        let context = TraceContext::from_headers(&[PARENT], [entries.join(",").as_str()]).unwrap();
        assert_eq!(context.tracestate(), Some(entries[..5].join(",").as_str()));
        assert!(TraceContext::new(PARENT, Some(&entries.join(","))).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_or_refused(parent in "\\PC{0,60}", state in "\\PC{0,60}") {
            let _ = TraceContext::new(&parent, Some(&state));
            let _ = TraceContext::from_headers(&[&parent], [state.as_str()]);
        }
    }
}

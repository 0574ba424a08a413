//! A command on a database, and against a server of the same database: what both say, compared.

use std::process::Output;

use serde_json::json;

use super::place::{Place, Serving};

/// A place, and a server on its database.
pub(crate) struct Ways<'a> {
    pub(crate) place: &'a Place,
    pub(crate) server: String,
    /// Shown to the server.
    token: Option<String>,
    _node: Serving,
}

impl<'a> Ways<'a> {
    /// The node knows the demo tasks, and serves one queue: jobs of others stay as they are.
    pub(crate) fn open(place: &'a Place) -> Self {
        let talk = "[tasks.talk]\ncommand = [\"sh\", \"-c\", \"echo one >&2; echo two >&2\"]\n";
        std::fs::write(place.path().join("turnwise.toml"), talk).unwrap();
        let flags = ["--demo-tasks", "--name", "n1", "--queue", "work", "--listen", "127.0.0.1:0", "--slots", "4"];
        let node = place.serve(&flags);
        let (_, address) = node.ready.split_once("http://").unwrap_or_else(|| panic!("no address: {}", node.ready));
        Self { place, server: format!("http://{}", address.trim()), token: None, _node: node }
    }

    /// As [`Ways::open`]; the server is shown a token that may do everything.
    pub(crate) fn open_with_token(place: &'a Place) -> Self {
        let secret = place.told(&["token", "create", "--name", "ways", "--scope", "submit,read,operate,admin,work"]);
        Self { token: Some(secret.trim().to_owned()), ..Self::open(place) }
    }

    pub(crate) fn here(&self, args: &[&str], input: Option<&str>) -> Output {
        self.place.run_with_input(args, input.unwrap_or_default())
    }

    pub(crate) fn there(&self, args: &[&str], input: Option<&str>) -> Output {
        let token: Vec<&str> = self.token.iter().flat_map(|token| ["--token", token.as_str()]).collect();
        self.place.run_with_input(&[&["--server", &self.server], &token[..], args].concat(), input.unwrap_or_default())
    }

    /// Both say the same, times aside.
    #[track_caller]
    pub(crate) fn same(&self, args: &[&str]) -> String {
        self.same_pair(args, args, None)
    }

    /// Both find the same. How many connections are used and how long a log is changes from one look to the next.
    pub(crate) fn examined(&self) {
        let counts_nothing = |text: &str| -> String {
            let counts = |line: &&str| line.contains("connections: ") || line.contains(" MiB are in the log");
            let bare = |line: &str| {
                if counts(&line) { line.replace(|c: char| c.is_ascii_digit(), "") } else { line.to_owned() }
            };
            text.lines().map(bare).collect::<Vec<_>>().join("\n")
        };
        let [here, there] = [self.here(&["doctor"], None), self.there(&["doctor"], None)].map(|output| {
            (output.status.code(), counts_nothing(&String::from_utf8(output.stdout).unwrap()), output.stderr)
        });
        assert_eq!(here, there);
        assert!(there.1.contains("clock: ") && there.1.contains("1 job waits for \"nobody-knows\""), "{}", there.1);
        let json = |output: Output| -> serde_json::Value { serde_json::from_slice(&output.stdout).unwrap() };
        let [here, there] = [self.here(&["doctor", "--json"], None), self.there(&["doctor", "--json"], None)].map(json);
        let subjects = |found: &serde_json::Value| -> Vec<serde_json::Value> {
            found["findings"].as_array().unwrap().iter().map(|one| one["subject"].clone()).collect()
        };
        assert_eq!((subjects(&here), &here["well"]), (subjects(&there), &json!(false)));
        assert_eq!(there["well"], false);
    }

    /// As [`Ways::same`], each about its own: `{}` is `alpha` here and `omega` there. Ids and secrets are not compared.
    #[track_caller]
    pub(crate) fn alike(&self, args: &[&str]) -> String {
        self.alike_with(args, None)
    }

    #[track_caller]
    pub(crate) fn alike_with(&self, args: &[&str], input: Option<&str>) -> String {
        let [here, there] =
            ["alpha", "omega"].map(|own| args.iter().map(|arg| arg.replace("{}", own)).collect::<Vec<_>>());
        let [here, there]: [Vec<&str>; 2] = [&here, &there].map(|args| args.iter().map(String::as_str).collect());
        self.same_pair(&here, &there, input)
    }

    #[track_caller]
    pub(crate) fn same_pair(&self, here: &[&str], there: &[&str], input: Option<&str>) -> String {
        let own = here != there || input.is_some() || matches!(here[0], "enqueue" | "token");
        let told = |output: &Output| {
            let text = |bytes: &[u8]| plain(std::str::from_utf8(bytes).unwrap(), own);
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        let (one, other) = (self.here(here, input), self.there(there, input));
        let (one, other) = (told(&one), told(&other));
        assert_eq!(one, other, "{here:?}");
        // A job may have no log.
        assert!(here[0] == "logs" || !one.1.is_empty() || !one.2.is_empty(), "{here:?} said nothing");
        [one.1, one.2].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Without times and spans, and spaces that depend on how long these are; `own`: nor ids, secrets, and what each way has for itself.
fn plain(text: &str, own: bool) -> String {
    let mut out = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    let shape = |from: usize, shape: &str| {
        shape.bytes().enumerate().all(|(i, c)| match (c, bytes.get(from + i)) {
            (b'0', Some(found)) => found.is_ascii_digit(),
            (b'x', Some(found)) => found.is_ascii_hexdigit(),
            (c, Some(found)) => c == *found,
            (_, None) => false,
        })
    };
    const TIME: &str = "0000-00-00T00:00:00.000000Z";
    const ID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    while at < text.len() {
        if shape(at, TIME) {
            out += "TIME";
            at += TIME.len();
        } else if own && shape(at, ID) {
            out += "ID";
            at += ID.len();
        } else if own && text[at..].starts_with("tw_") {
            out += "SECRET";
            at += text[at..].find(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).unwrap_or(text.len() - at);
        } else if own && (text[at..].starts_with("alpha") || text[at..].starts_with("omega")) {
            out += "OWN";
            at += 5;
        } else {
            let c = text[at..].chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        }
    }
    // `3 s`, `1.5 min`, `59m`, `"end_ms": 17`.
    let units = ["us", "ms", "s", "m", "min", "h", "d", "µs"];
    let number = |word: &str| word.parse::<f64>().is_ok();
    let mut lines = Vec::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut kept: Vec<String> = Vec::new();
        for (i, word) in words.iter().enumerate() {
            let bare = word.trim_end_matches([',', ';', '.']);
            let span = units.iter().any(|unit| bare.strip_suffix(unit).is_some_and(number));
            let unit = units.contains(&bare) && i > 0 && number(words[i - 1]);
            let millis = i > 0 && words[i - 1].ends_with("_ms\":");
            match (span || unit || millis, unit) {
                (true, true) => {
                    kept.pop();
                    kept.push("SPAN".to_owned());
                }
                (true, false) => kept.push("SPAN".to_owned()),
                _ => kept.push((*word).to_owned()),
            }
        }
        lines.push(kept.join(" "));
    }
    lines.join("\n")
}

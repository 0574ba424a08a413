//! A collector of traces, by OTLP over HTTP with protobuf; it reads of the messages what the tests look at.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use super::{place::Place, wait::until};

/// What it got so far.
#[derive(Debug, Default)]
struct Got {
    spans: Vec<Span>,
    services: Vec<String>,
    /// As it came.
    raw: Vec<u8>,
}

pub(crate) struct Collector {
    endpoint: String,
    got: Arc<Mutex<Got>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty: it is the first of its trace.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Whether its status is an error.
    pub(crate) failed: bool,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Got::default()));
        let kept = got.clone();
        // Ends with the test.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).unwrap() > 2 {}
                let length =
                    head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; length.unwrap_or_default()];
                reader.read_exact(&mut body).unwrap();
                assert!(head.starts_with("POST /v1/traces "), "{head}");
                kept.lock().unwrap().take(&body);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { endpoint, got }
    }

    /// Commands and nodes of this place send their spans here, every tenth of a second.
    pub(crate) fn serve(&self, place: &mut Place) {
        place.set("OTEL_EXPORTER_OTLP_ENDPOINT", self.endpoint.clone());
        place.set("OTEL_SERVICE_NAME", "jobs-of-the-test");
        place.set("OTEL_BSP_SCHEDULE_DELAY", "100");
    }

    /// The first span like this, once it is there.
    pub(crate) fn span(&self, what: &str, like: impl Fn(&Span) -> bool) -> Span {
        until(&format!("the span of {what}"), || self.spans().into_iter().find(&like))
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.got.lock().unwrap().spans.clone()
    }

    pub(crate) fn services(&self) -> Vec<String> {
        self.got.lock().unwrap().services.clone()
    }

    /// All that came, where it is text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.got.lock().unwrap().raw).into_owned()
    }
}

impl Got {
    /// `ExportTraceServiceRequest`: `ResourceSpans` (1) have a `Resource` (1), whose attributes are 1, and `ScopeSpans` (2), whose spans
    /// are 2.
    fn take(&mut self, body: &[u8]) {
        self.raw.extend(body);
        for resource_spans in parts(body, 1) {
            for resource in parts(resource_spans, 1) {
                self.services.extend(attributes(resource, 1).remove("service.name"));
            }
            for scope in parts(resource_spans, 2) {
                self.spans.extend(parts(scope, 2).into_iter().map(span));
            }
        }
    }
}

fn span(message: &[u8]) -> Span {
    let hex = |field| part(message, field).iter().map(|byte| format!("{byte:02x}")).collect();
    let code = fields(part(message, 15)).into_iter().find_map(|(field, value)| (field == 3).then_some(value));
    Span {
        trace: hex(1),
        id: hex(2),
        parent: hex(4),
        name: text(part(message, 5)),
        attributes: attributes(message, 9),
        failed: matches!(code, Some(Value::Number(2))),
    }
}

/// `KeyValue`: 1 is the key, 2 the value, in which 1 is a text and 3 a number.
fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let value = |any: &[u8]| match fields(any).first() {
        Some((1, Value::Bytes(bytes))) => text(bytes),
        Some((_, Value::Number(number))) => number.to_string(),
        _ => String::new(),
    };
    parts(message, field).into_iter().map(|pair| (text(part(pair, 1)), value(part(pair, 2)))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn part(message: &[u8], field: u64) -> &[u8] {
    parts(message, field).first().copied().unwrap_or_default()
}

fn parts(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let bytes = |(field, value)| match value {
        Value::Bytes(bytes) if field == wanted => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(bytes).collect()
}

/// The fields of a message of protobuf, by their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = u64::from(message[0]);
            *message = &message[1..];
            number |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let fixed = |length: usize, message: &mut &[u8]| {
            let (bytes, rest) = message.split_at(length);
            *message = rest;
            Value::Number(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        };
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => fixed(8, &mut message),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Value::Bytes(bytes)
            }
            5 => fixed(4, &mut message),
            other => panic!("no wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

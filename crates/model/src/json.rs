//! Reading JSON from strangers: what two readers could understand differently is refused.
//!
//! Duplicate keys, numbers that canonical JSON would change, and nesting without bound are all
//! legal JSON. They are refused here because a digest is taken over what was read, and a digest is
//! worth nothing when it can stand for two different inputs.

mod reader;
mod text;

use serde_json::Value;

use crate::error::Failure;
use reader::{Fault, Reader};
pub(crate) use text::{push_index, push_segment, shorten};

/// How much a reader is willing to take in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    pub max_bytes: usize,
    /// Containers inside containers: a scalar has depth 0, `[]` has depth 1. Values above
    /// [`JsonLimits::DEEPEST`] count as that.
    pub max_depth: usize,
}

impl JsonLimits {
    /// The parser below us stops here whatever it is told, so a larger promise would be empty.
    pub const DEEPEST: usize = 127;

    fn depth(&self) -> usize {
        self.max_depth.min(Self::DEEPEST)
    }
}

impl Default for JsonLimits {
    fn default() -> Self {
        JsonLimits { max_bytes: 1024 * 1024, max_depth: 64 }
    }
}

/// Reads one JSON value, and nothing but that, from `bytes`.
///
/// Numbers: integers beyond ±2^53 are refused in every spelling that canonical JSON (RFC 8785)
/// would write as an integer, because it writes the nearest double instead.
#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
pub fn parse_strict(bytes: &[u8], limits: &JsonLimits) -> Result<Value, Failure> {
    if bytes.len() > limits.max_bytes {
        return Err(too_large(bytes.len(), limits.max_bytes));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
    let mut reader = Reader::new(limits.depth());
    let value = reader.read(text).map_err(|error| explain(&reader, &error, limits))?;
    match reader.saw_huge().then(|| text::first_long_integer(text)).flatten() {
        Some(offset) => Err(number_out_of_range(&text::place(bytes, offset))),
        None => Ok(value),
    }
}

fn explain(reader: &Reader, error: &serde_json::Error, limits: &JsonLimits) -> Failure {
    let place = format!("line {}, column {}", error.line(), error.column());
    match reader.fault() {
        Some(Fault::TooDeep) => too_deep(&place, limits.depth()),
        Some(Fault::DuplicateKey(key)) => duplicate_key(key, &at(&reader.pointer()), &place),
        Some(Fault::Number) => number_out_of_range(&at(&reader.pointer())),
        None => syntax(error, &place, limits),
    }
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { "the top".to_owned() } else { format!("`{pointer}`") }
}

/// The parser has no error kinds for these two, so its words are all there is to go by.
fn syntax(error: &serde_json::Error, place: &str, limits: &JsonLimits) -> Failure {
    let words = error.to_string();
    if words.starts_with("number out of range") {
        return number_out_of_range(place);
    }
    if words.starts_with("recursion limit exceeded") {
        return too_deep(place, limits.depth());
    }
    let reason = words.split(" at line ").next().unwrap_or("it is malformed");
    Failure::validation("INPUT_NOT_JSON", format!("the input is not JSON at {place}: {reason}"))
        .hint("send exactly one JSON value in UTF-8, without a byte order mark, comments or NaN")
}

fn too_large(len: usize, max: usize) -> Failure {
    Failure::validation("INPUT_TOO_LARGE", format!("the input has {len} bytes, more than {max}"))
        .hint("pass large content as a file or an artifact")
}

fn not_utf8(bytes: &[u8], offset: usize) -> Failure {
    let place = text::place(bytes, offset);
    Failure::validation("INPUT_NOT_UTF8", format!("the input is not UTF-8 at {place}"))
        .hint("encode the text as UTF-8, or binary data as Base64 in a string")
}

fn too_deep(place: &str, max: usize) -> Failure {
    let message = format!("the input nests deeper than {max} levels at {place}");
    Failure::validation("INPUT_TOO_DEEP", message).hint("flatten the structure")
}

fn duplicate_key(key: &str, pointer: &str, place: &str) -> Failure {
    let key = text::shorten(key, 80);
    let message = format!("the key `{key}` occurs twice in the object at {pointer} ({place})");
    Failure::validation("INPUT_DUPLICATE_KEY", message).hint("keep one of them")
}

fn number_out_of_range(place: &str) -> Failure {
    let message =
        format!("the number at {place} cannot be kept exactly: it is beyond 2^53 or not finite");
    Failure::validation("INPUT_NUMBER_OUT_OF_RANGE", message).hint("pass it as a string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        match parse_strict(text.as_bytes(), &JsonLimits::default()) {
            Ok(value) => format!("ok {value}"),
            Err(failure) => failure.code.into_owned(),
        }
    }

    #[test]
    fn every_refusal_has_its_code() {
        for (text, expected) in [
            ("{\"a\":1,\"b\":{\"a\":2}}", "ok {\"a\":1,\"b\":{\"a\":2}}"),
            (" null ", "ok null"),
            ("", "INPUT_NOT_JSON"),
            ("\u{feff}{}", "INPUT_NOT_JSON"),
            ("{} {}", "INPUT_NOT_JSON"),
            ("[1,]", "INPUT_NOT_JSON"),
            ("NaN", "INPUT_NOT_JSON"),
            ("[Infinity]", "INPUT_NOT_JSON"),
            ("\"\\ud800\"", "INPUT_NOT_JSON"),
            ("\"\u{1}\"", "INPUT_NOT_JSON"),
            ("01", "INPUT_NOT_JSON"),
            ("{\"a\":1,\"a\":1}", "INPUT_DUPLICATE_KEY"),
            ("{\"a\":1,\"\\u0061\":1}", "INPUT_DUPLICATE_KEY"),
            ("[{\"x\":[{\"k\":1,\"k\":2}]}]", "INPUT_DUPLICATE_KEY"),
            ("1e999", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("[-1e999]", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("9007199254740992", "ok 9007199254740992"),
            ("9007199254740993", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("-9007199254740993", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("18446744073709551616", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("123456789012345678901234567890", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("1e20", "INPUT_NUMBER_OUT_OF_RANGE"),
            ("6.02214076e23", "ok 6.02214076e+23"),
            (
                "[\"123456789012345678901234567890\",1e30]",
                "ok [\"123456789012345678901234567890\",1e+30]",
            ),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_depths_and_encodings_are_bounded() {
        let limits = JsonLimits { max_bytes: 4, max_depth: 64 };
        assert_eq!(parse_strict(b"[1,2]", &limits).unwrap_err().code, "INPUT_TOO_LARGE");
        assert_eq!(code(&"[".repeat(1024 * 1024)), "INPUT_TOO_DEEP");
        assert_eq!(code(&"{\"a\":".repeat(100_000)), "INPUT_TOO_DEEP");
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(code(&nested(64)).starts_with("ok"));
        assert_eq!(code(&nested(65)), "INPUT_TOO_DEEP");
        let deepest = JsonLimits { max_bytes: 4096, max_depth: 5000 };
        assert!(parse_strict(nested(127).as_bytes(), &deepest).is_ok());
        let failure = parse_strict(nested(128).as_bytes(), &deepest).unwrap_err();
        assert_eq!(failure.code, "INPUT_TOO_DEEP");
        let flat = JsonLimits { max_bytes: 9, max_depth: 0 };
        assert!(parse_strict(b"1", &flat).is_ok());
        assert_eq!(parse_strict(b"[]", &flat).unwrap_err().code, "INPUT_TOO_DEEP");
        let failure = parse_strict(b"[\n\"\xff\"]", &JsonLimits::default()).unwrap_err();
        assert_eq!(
            (&*failure.code, failure.message.contains("line 2, column 2")),
            ("INPUT_NOT_UTF8", true),
            "{failure}"
        );
    }

    #[test]
    fn refusals_say_where() {
        let limits = JsonLimits::default();
        let message = |text: &str| parse_strict(text.as_bytes(), &limits).unwrap_err().message;
        for (text, place) in [
            ("{\"a/b\":[0,{\"k\":1,\"k\":2}]}", "object at `/a~1b/1` (line 1, column 20)"),
            ("{\"a\":[1,9007199254740993]}", "number at `/a/1` cannot"),
            ("9007199254740993", "number at the top cannot"),
            ("[1,\n 100000000000000000000000]", "number at line 2, column 2 cannot"),
            ("[1,\n x]", "not JSON at line 2, column 2"),
        ] {
            assert!(message(text).contains(place), "{text}: {}", message(text));
        }
        let long = format!("{{\"{0}\":1,\"{0}\":2}}", "k".repeat(10_000));
        assert!(message(&long).len() < 300);
    }
}

//! How long a text takes to be looked at: `cargo run --release --example scan -- FILE…`, or built-in
//! texts of 64 KiB without arguments.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "an example prints, and stops at the first surprise"
)]

use std::time::{Duration, Instant};

use countersign_documents::scan::{Known, scan_bytes};

const SIZE: usize = 64 * 1024;

fn main() {
    let files: Vec<(String, Vec<u8>)> =
        std::env::args().skip(1).map(|name| (name.clone(), std::fs::read(name).unwrap())).collect();
    let texts = if files.is_empty() { samples() } else { files };
    for (name, bytes) in texts {
        let known = Known::default();
        let began = Instant::now();
        let found = scan_bytes(&bytes, &known);
        let first = began.elapsed();
        let best = (0..5).map(|_| time(|| scan_bytes(&bytes, &known))).min().unwrap_or_default();
        println!("{name}: first {first:?}, best {best:?}, kinds found {}", found.len());
    }
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    std::hint::black_box(work());
    began.elapsed()
}

/// What a hostile text would repeat, so that each rule has most to do.
const HOSTILE: &[&str] = &[
    "ghp_",
    "xoxb-",
    "eyJ-",
    "eyJa.",
    "csk_",
    "sk-",
    "-us1",
    "v1.0-",
    "://a:",
    "a://",
    "basic ",
    "bearer ",
    "login a password ",
    "password=",
    "--password ",
    "password=\"",
    "token:",
    "private key-----",
    "-----begin ",
    "private-lines: 1\n",
    "&sig=",
    "#!",
    "#!/b\n",
    "begin 644 ",
    "begin 644 a\n",
    "data:",
    "data:text/",
    "<script",
    "javascript:",
    "-enc ",
    "```",
    "```sh\n",
    "~~~ ",
    "H4sI\n",
    "H4sI ",
    "\\x7f",
    "\\x7fELF",
    "\\x1f\\x8b\\x08\\x00",
    "7f 45 ",
    "0x7f,",
    "%41",
    "&#65;",
    "\\u{41}",
    "\"",
    "\"a\" + ",
    "' '",
    "\n ",
    " \n",
    "curl ",
    "curl http://",
    "http://",
    "http://a.sh ",
    "pip ",
    "pip -",
    "npm --a ",
    "go get ",
    "uvx a",
    "you must run ",
    "please run ",
    "ignore previous ",
    "policy should change ",
    "the policy ",
    "\u{200b}",
    "\u{e9}",
    "\u{fdfa}",
    "\x1b[",
    "\x1b]",
    "A",
    "a/",
    "-",
    "=",
    "[",
    "| ",
    "<",
    "*",
    "_",
    "\\",
    "QUJD",
    "QUJDREVGR0hJSktM ",
    "41424344",
    "PK\x03\x04",
    "\x7fELF",
    "\r",
    "AKIA",
    "Q~",
    ":AA",
    "1:AA",
];

fn samples() -> Vec<(String, Vec<u8>)> {
    let fill = |line: &str| line.bytes().cycle().take(SIZE).collect::<Vec<u8>>();
    let noise: String = (0..SIZE as u64)
        .map(|n| {
            char::from(
                b"ABCDEFGHabcdefgh01234567"[(n.wrapping_mul(n ^ 0x9e37_79b9) >> 7) as usize % 24],
            )
        })
        .collect();
    let hostile = HOSTILE.iter().map(|unit| (format!("{unit:?}"), fill(unit)));
    let mut all: Vec<_> = hostile.collect();
    all.extend([
        (
            "a log".into(),
            fill("2026-11-15T12:00:00Z INFO request 42 took 12 ms, 3 files were read\n"),
        ),
        (
            "words".into(),
            fill("you should please the policy change and then run it now, maybe not\n"),
        ),
        ("base64".into(), noise.clone().into_bytes()),
        (
            "base64 in lines".into(),
            noise.as_bytes().chunks(76).flat_map(|l| [l, b"\n"].concat()).collect(),
        ),
        ("base64 of text".into(), fill("dGhlIHRleHQgdGhhdCBoaWRlcyBiZWhpbmQgbGV0dGVycw==\n")),
        ("percent".into(), fill("%74%68%65%20%74%65%78%74")),
        ("prefixes".into(), fill("ghp_ sk- AKIA eyJ xoxb- password= token: :// bearer basic ")),
        ("accents".into(), fill("é à ü ñ ö \u{200b} а е о \u{200b}")),
        ("ideographs".into(), fill("日本語のテキスト")),
        ("escapes".into(), fill("\\x41\\u0042\\103")),
        ("seams".into(), fill("\"a\" + \"b\" + ")),
    ]);
    all
}

//! Secrets are found in every guise, and what only looks like one is left alone.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_documents::scan::{Known, secret_spans, secrets};

/// A body of the right length that no maker of keys would accept: it repeats itself.
fn fill(alphabet: &str, length: usize) -> String {
    alphabet.chars().cycle().take(length).collect()
}

const MIXED: &str = "Fake0Key1";
const HEX: &str = "0b1d2c3e4f5a";
const UPPER: &str = "FAKE2KEY3";

/// Rule and a value of its form. Assembled, so that nothing here is the form itself.
fn formed() -> Vec<(&'static str, String)> {
    let mixed = |prefix: &str, length| format!("{prefix}{}", fill(MIXED, length));
    let hex = |prefix: &str, length| format!("{prefix}{}", fill(HEX, length));
    let upper = |prefix: &str, length| format!("{prefix}{}", fill(UPPER, length));
    let header = BASE64.encode(r#"{"alg":"none"}"#).replace('=', "");
    vec![
        ("aws-access-key", upper("AKIA", 16)),
        ("aws-access-key", upper("ASIA", 16)),
        ("aws-bedrock-key", mixed("ABSK", 110)),
        ("google-api-key", mixed("AIza", 35)),
        ("google-oauth-token", mixed("ya29.", 40)),
        ("google-client-secret", mixed("GOCSPX-", 28)),
        ("azure-storage-key", format!("{}==", mixed("AccountKey=", 86))),
        ("azure-shared-key", format!("{}=", mixed("SharedAccessKey=", 43))),
        ("azure-client-secret", mixed("aB38Q~", 34)),
        ("digitalocean-token", hex("dop_v1_", 64)),
        ("alibaba-access-key", mixed("LTAI", 20)),
        ("databricks-token", hex("dapi", 32)),
        ("heroku-key", mixed("HRKU-AA", 58)),
        ("fly-token", mixed("fm2_", 80)),
        ("netlify-token", mixed("nfp_", 36)),
        ("supabase-token", hex("sbp_", 40)),
        ("planetscale-token", mixed("pscale_tkn_", 43)),
        ("planetscale-password", mixed("pscale_pw_", 43)),
        ("pulumi-token", hex("pul-", 40)),
        ("terraform-token", mixed("Abc123Abc123Ab.atlasv1.", 67)),
        ("vault-token", mixed("hvs.", 90)),
        ("doppler-token", mixed("dp.pt.", 43)),
        ("onepassword-token", mixed("ops_eyJ", 240)),
        ("github-token", mixed("ghp_", 36)),
        ("github-token", mixed("ghs_", 36)),
        ("github-fine-token", mixed("github_pat_", 82)),
        ("gitlab-token", mixed("glpat-", 20)),
        ("bitbucket-password", mixed("ATBB", 32)),
        ("atlassian-token", mixed("ATATT3", 180)),
        ("npm-token", mixed("npm_", 36)),
        ("pypi-token", mixed("pypi-AgEIcHlwaS5vcmc", 100)),
        ("rubygems-key", hex("rubygems_", 48)),
        ("crates-token", mixed("cio", 32)),
        ("docker-token", mixed("dckr_pat_", 27)),
        ("nuget-key", mixed("oy2", 43)),
        ("slack-token", mixed("xoxb-", 50)),
        ("slack-app-token", mixed("xapp-", 60)),
        ("slack-webhook", mixed("hooks.slack.com/services/", 44)),
        ("discord-webhook", mixed("discord.com/api/webhooks/", 86)),
        ("telegram-token", format!("123456789:{}", mixed("AA", 33))),
        ("openai-key", mixed("sk-proj-", 60)),
        ("openai-key", mixed("sk-", 48)),
        ("anthropic-key", mixed("sk-ant-api03-", 93)),
        ("openrouter-key", hex("sk-or-v1-", 64)),
        ("huggingface-token", mixed("hf_", 34)),
        ("groq-key", mixed("gsk_", 52)),
        ("xai-key", mixed("xai-", 80)),
        ("replicate-token", mixed("r8_", 37)),
        ("perplexity-key", mixed("pplx-", 48)),
        ("nvidia-key", mixed("nvapi-", 64)),
        ("stripe-key", mixed("sk_live_", 24)),
        ("webhook-secret", mixed("whsec_", 32)),
        ("square-token", mixed("sq0atp-", 22)),
        ("shopify-token", hex("shpat_", 32)),
        ("razorpay-key", mixed("rzp_live_", 14)),
        ("sendgrid-key", format!("SG.{}.{}", fill(MIXED, 22), fill(MIXED, 43))),
        ("twilio-key", hex("SK", 32)),
        ("mailgun-key", hex("key-", 32)),
        ("grafana-token", mixed("glsa_", 41)),
        ("newrelic-key", upper("NRAK-", 27)),
        ("dynatrace-token", format!("dt0c01.{}.{}", fill(UPPER, 24), fill(UPPER, 64))),
        ("sentry-token", hex("sntryu_", 64)),
        ("linear-key", mixed("lin_api_", 40)),
        ("notion-token", mixed("ntn_", 46)),
        ("figma-token", mixed("figd_", 40)),
        ("postman-key", mixed("PMAK-", 59)),
        ("age-key", upper("AGE-SECRET-KEY-1", 58)),
        ("minisign-key", mixed("RWRTY0Iy", 204)),
        ("countersign-key", format!("csk_{}_{}_{}", fill(HEX, 32), fill(MIXED, 43), fill(HEX, 6))),
        ("countersign-signer", format!("PRIVATE+KEY+example.org/x+0badf00d+{}", fill(MIXED, 44))),
        (
            "json-web-token",
            format!("{header}.{}.{}", BASE64.encode(r#"{"sub":"noone"}"#), fill(MIXED, 43)),
        ),
    ]
}

/// Rules that need what stands around the value.
fn shaped() -> Vec<(&'static str, String)> {
    let basic = BASE64.encode("ada:open sesame");
    let pem = |kind: &str| {
        format!(
            "-----BEGIN {kind}PRIVATE KEY-----\n{}\n-----END {kind}PRIVATE KEY-----",
            fill(MIXED, 64)
        )
    };
    vec![
        ("url-password", "postgres://ada:lovelace@db.example.org/x".into()),
        ("url-password", "https://ada:p%40ss1@example.org".into()),
        ("url-password", "redis://:s3same0pen@[::1]:6379/0".into()),
        ("private-key", pem("")),
        ("private-key", pem("RSA ")),
        ("private-key", pem("OPENSSH ")),
        (
            "private-key",
            format!("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{}", fill(MIXED, 48)),
        ),
        ("basic-header", format!("Authorization: Basic {basic}")),
        ("basic-header", format!("{{\"authorization\": \"basic {basic}\"}}")),
        ("basic-header", format!("curl -H 'Authorization: Basic {basic}'")),
        ("bearer-header", format!("Authorization: Bearer {}", fill(MIXED, 32))),
        ("bearer-header", format!("authorization=bearer {}", fill(HEX, 40))),
        ("bearer-header", format!("-H \"Authorization: Bearer {}\"", fill(MIXED, 20))),
        ("netrc-password", "machine example.org login ada password lovelace".into()),
        ("netrc-password", "machine example.org\n  login ada\n  password sesame".into()),
        ("netrc-password", "default login ada password sesame".into()),
        ("mailchimp-key", format!("{}-us14", fill(HEX, 32))),
        ("cloudflare-key", format!("v1.0-{}-{}", fill(HEX, 24), fill(HEX, 146))),
        ("azure-signature", format!("https://x.example.org/a?se=2026&sig={}%3D", fill(MIXED, 43))),
        ("password-value", "password=s3same!".into()),
        ("password-value", "\"password\": \"opensesame\"".into()),
        ("password-value", "Server=db;User Id=ada;Password=Sesame99;".into()),
        ("password-value", "PGPASSWORD=sesame42 psql".into()),
        ("password-value", "mysql --password 'sesame42'".into()),
        ("password-value", "passphrase: correct-horse-42".into()),
        ("password-value", "db_pwd := \"sesame42\"".into()),
        ("secret-value", format!("api_key: {}", fill(MIXED, 32))),
        ("secret-value", format!("export API_KEY=\"{}\"", fill(HEX, 40))),
        ("secret-value", format!("aws_secret_access_key = {}", fill("Fake0/Key1+x", 40))),
        ("secret-value", format!("?access_token={}&x=1", fill(MIXED, 24))),
        ("secret-value", format!("client_secret: '{}'", fill("fk0-Ey1_", 24))),
        ("secret-value", format!("--token {}", fill(MIXED, 20))),
    ]
}

fn rules(text: &str) -> Vec<&'static str> {
    secrets(text, &Known::default()).iter().map(|found| found.rule).collect()
}

/// Guises in which a secret stays hidden.
#[derive(Default)]
struct Missed(Vec<String>);

impl Missed {
    fn expect(&mut self, rule: &str, guise: &str, text: &str) {
        let rules = rules(text);
        if !rules.contains(&rule) {
            self.0.push(format!("{rule} {guise}: {text:?} gave {rules:?}"));
        }
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// In the middle of what is secret, so that neither half is enough.
fn halves(text: &str) -> (&str, &str) {
    text.split_at(text.len() / 2)
}

#[test]
fn a_form_is_found_in_every_guise() {
    let mut missed = Missed::default();
    for (rule, value) in formed() {
        let (left, right) = halves(&value);
        missed.expect(rule, "plain", &value);
        missed.expect(rule, "in a sentence", &format!("It is `{value}`, they say."));
        missed.expect(
            rule,
            "split by what cannot be seen",
            &format!("x {left}\u{200b}{right}\u{ad} y"),
        );
        missed.expect(rule, "split by a colour", &format!("{left}\x1b[31m{right}"));
        missed.expect(rule, "broken over lines", &format!("it is\n{left}\n  {right}\nthere"));
        missed.expect(rule, "as two strings", &format!("k = \"{left}\" + \"{right}\""));
        missed.expect(rule, "in base64", &format!("see {}", BASE64.encode(&value)));
        missed.expect(rule, "in hexadecimal", &hex(&format!("x={value}")));
        missed.expect(rule, "in percent escapes", &percent(&value));
        missed.expect(
            rule,
            "twice in base64",
            &BASE64.encode(BASE64.encode(format!("the key {value}"))),
        );
    }
    missed.none();
}

#[test]
fn a_shape_is_found_plain_and_encoded() {
    let mut missed = Missed::default();
    for (rule, value) in shaped() {
        missed.expect(rule, "plain", &value);
        missed.expect(rule, "in a text", &format!("first\n{value}\nlast"));
        let (left, right) = halves(&value);
        missed.expect(rule, "split by what cannot be seen", &format!("{left}\u{2060}{right}"));
        missed.expect(rule, "in base64", &BASE64.encode(format!("here: {value}\n")));
        missed.expect(rule, "in hexadecimal", &hex(&value));
        missed.expect(rule, "in percent escapes", &percent(&value));
    }
    missed.none();
}

#[test]
fn there_are_fifty_kinds_and_the_place_is_right() {
    let mut kinds: Vec<_> = formed().iter().chain(&shaped()).map(|(rule, _)| *rule).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert!(kinds.len() >= 50, "{}", kinds.len());
    for (rule, value) in formed() {
        let text = format!("héllo\nkey:\u{200b} {value}");
        let found = secrets(&text, &Known::default());
        let place = found.iter().find(|found| found.rule == rule).unwrap();
        let least = text.find(&value).unwrap();
        assert!((least..least + 12).contains(&place.offset), "{rule}: {place:?}");
    }
}

#[test]
fn lookalikes_are_left_alone() {
    let digest = fill("9f86d081884c7d65", 64);
    let lookalikes = [
        format!("sha256: {digest}"),
        format!("cache_key: {digest}"),
        format!("/out/api_key_report.json sha256: {digest}"),
        format!("etag = \"{digest}\""),
        "commit 1a2b3c4d5e6f7a8b9c0d1a2b3c4d5e6f7a8b9c0d".into(),
        "request_id: 019a7c3e-0000-7000-8000-00000000000a".into(),
        "the password is asked for at start".into(),
        "password: asked for at start".into(),
        "Password: ".into(),
        "password: ********".into(),
        "password=xxxxxxxx".into(),
        "token: <redacted>".into(),
        "token: [REDACTED]".into(),
        "token=$TOKEN".into(),
        "PASSWORD=${DB_PASSWORD}".into(),
        "password: {{ db_password }}".into(),
        "password = getpass.getpass()".into(),
        "password = os.environ['PASSWORD']".into(),
        "password: str = None".into(),
        "\"password\": \"string\"".into(),
        "api_key = config.api_key".into(),
        "secret: /run/secrets/database_password_v2".into(),
        "token_count: 128000".into(),
        "max_tokens: 4096".into(),
        format!("next_page_token: {}", fill(MIXED, 24)),
        "pad_token: [PAD]".into(),
        "private_key_path = keys/server_2024_v1.pem".into(),
        "access_key_id".into(),
        "AKIAIOSFODNN7EXAMPLE".into(),
        "the prefix AKIA marks an access key".into(),
        format!("ghp_{}", "x".repeat(36)),
        "-----BEGIN PRIVATE KEY-----".into(),
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=".into(),
        "-----BEGIN CERTIFICATE-----\nMIIBdzCCAR2gAwIBAgIUFakeFakeFakeFake".into(),
        "https://example.org:8443/path@2".into(),
        "https://ada@example.org/".into(),
        "ssh://git@example.org:22/repo".into(),
        "postgres://ada:***@db/x".into(),
        "postgres://ada:$PASSWORD@db/x".into(),
        "postgres://<user>:<password>@host/db".into(),
        "Authorization: Bearer <token>".into(),
        "a bearer token is expected".into(),
        "Basic authentication is off".into(),
        "basic usage: see the manual".into(),
        "login ada password unknown".into(),
        "sk-learn, sk-image and task-42".into(),
        "dapi is short".into(),
        "SKU-12345678901234567890123456789012".into(),
        "12:34:56:AA is a time of a sort".into(),
        "npm_config_registry=https://registry.example.org/".into(),
        "key-value-pairs".into(),
        format!("1c{}", fill("0123456789", 60)),
        "sha512-Fake0Key1Fake0Key1Fake0Key1Fake0Key1Fake0Key1Fake0Key1Fake0Key1Fake0Key1Fake0Key1==".into(),
        "secret_santa_2026_results.csv".into(),
        "the secret: nobody knows".into(),
        "tokens = tokenizer.encode(text)".into(),
        "Passwords: 12345678 of 12345678 checked".into(),
    ];
    let around = lookalikes.iter().map(|text| format!("first line\n  {text}\nand the last"));
    let texts: Vec<String> = lookalikes.iter().cloned().chain(around).collect();
    let alarms = texts.iter().filter(|text| !rules(text).is_empty());
    let alarms: Vec<_> = alarms.map(|text| (text, rules(text))).collect();
    assert!(alarms.is_empty(), "{alarms:#?}");
}

#[test]
fn a_declared_digest_is_no_secret_and_another_is() {
    let digest = fill(HEX, 64);
    let text = format!("token: {digest}");
    assert_eq!(rules(&text), ["secret-value"]);
    assert_eq!(secrets(&text, &Known::of([&digest])), []);
    assert_ne!(secrets(&text, &Known::of([fill("0", 64)])), []);
}

/// The text with a placeholder for every stretch that spans cover.
fn without_spans(text: &str) -> String {
    let mut kept = String::new();
    let mut at = 0;
    for span in secret_spans(text, &Known::default()) {
        if at == 0 || span.start > at {
            kept.push_str(&text[at..span.start]);
            kept.push_str("[redacted]");
        }
        at = at.max(span.end);
    }
    kept.push_str(&text[at..]);
    kept
}

#[test]
fn spans_cover_the_whole_value_and_nothing_of_its_sentence() {
    for (rule, value) in formed() {
        let text = format!("Größe: it is `{value}`, they say.");
        let spans = secret_spans(&text, &Known::default());
        assert!(spans.iter().any(|span| span.rule == rule), "{rule}: {spans:?}");
        assert_eq!(without_spans(&text), "Größe: it is `[redacted]`, they say.", "{rule}");
    }
}

#[test]
fn spans_leave_nothing_to_be_found_in_any_guise() {
    let values = formed().into_iter().chain(shaped());
    for (rule, value) in values {
        let (left, right) = halves(&value);
        let guises = [
            value.clone(),
            format!("{left}\u{200b}{right}"),
            BASE64.encode(format!("it is {value} here")),
            hex(&value),
            percent(&value),
            format!("\"{left}\" + \"{right}\""),
            format!("{left}\r\n  {right}"),
        ];
        for guise in guises {
            let text = format!("before\n\n{guise}\n\nafter");
            let rest = without_spans(&text);
            assert_eq!(secrets(&rest, &Known::default()), [], "{rule}: {text:?} left {rest:?}");
            assert!(rest.starts_with("before") && rest.ends_with("after"), "{rule}: {rest:?}");
        }
    }
}

#[test]
fn the_next_line_stays_unless_it_may_be_the_rest() {
    for (rule, value) in formed() {
        assert_eq!(
            without_spans(&format!("x:\n{value}\nnext line\n")),
            "x:\n[redacted]\nnext line\n",
            "{rule}"
        );
    }
    let (left, right) = ("ghp_".to_owned() + &fill(MIXED, 40), fill(MIXED, 20));
    assert_eq!(without_spans(&format!("x\n{left}\n{right}\n")), "x\n[redacted]\n");
}

#[test]
fn spans_and_findings_begin_at_the_same_places() {
    let all: Vec<String> = formed().into_iter().chain(shaped()).map(|(_, value)| value).collect();
    let text = all.join("\n\n");
    let begins: Vec<_> =
        secrets(&text, &Known::default()).iter().map(|f| (f.offset, f.rule)).collect();
    let mut spans: Vec<_> =
        secret_spans(&text, &Known::default()).iter().map(|s| (s.start, s.rule)).collect();
    spans.dedup();
    assert_eq!(spans, begins);
}

#[test]
fn a_key_file_is_covered_to_its_end() {
    let body = fill(MIXED, 64);
    let lines = format!("{body}\n").repeat(40);
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}-----END RSA PRIVATE KEY-----");
    assert_eq!(without_spans(&format!("a\n{key}\nb")), "a\n[redacted]\nb");
    let open = format!("-----BEGIN PRIVATE KEY-----\n{lines}");
    assert_eq!(without_spans(&format!("a\n{open}")), "a\n[redacted]");
}

//! Secrets with a form of their own: a fixed beginning and a body of known characters and length.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::LazyLock;

use super::decode::from_base64;
use super::matcher::{Finder, before, byte, distinct, is_word, span};
use super::spans::Span;
use super::views::View;

/// Which characters the body has.
#[derive(Debug, Clone, Copy)]
enum Body {
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `_` and `-`.
    Url,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted,
    /// Lower-case hexadecimal digits.
    Hex,
    /// Upper-case letters and digits.
    Upper,
    /// Both alphabets of base64 and padding.
    Base64,
    /// Whatever can be seen, but quotes.
    Seen,
}

impl Body {
    fn has(self, byte: u8) -> bool {
        match self {
            Body::Alnum => byte.is_ascii_alphanumeric(),
            Body::Url => is_word(byte) || byte == b'-',
            Body::Dotted => is_word(byte) || matches!(byte, b'-' | b'.'),
            Body::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Body::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Body::Base64 => is_word(byte) || matches!(byte, b'+' | b'/' | b'-' | b'='),
            Body::Seen => byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`'),
        }
    }
}

/// What begins so and goes on with so many characters, neither fewer nor more.
#[derive(Debug)]
struct Form(&'static str, &'static str, Body, usize, usize);

const ANY: usize = usize::MAX;

/// Rule, beginning, body, least and most.
const FORMS: &[Form] = &[
    // Clouds.
    Form("aws-access-key", "AKIA", Body::Upper, 16, 16),
    Form("aws-access-key", "ASIA", Body::Upper, 16, 16),
    Form("aws-access-key", "ABIA", Body::Upper, 16, 16),
    Form("aws-access-key", "ACCA", Body::Upper, 16, 16),
    Form("aws-bedrock-key", "ABSK", Body::Base64, 100, ANY),
    Form("google-api-key", "AIza", Body::Url, 35, 35),
    Form("google-oauth-token", "ya29.", Body::Url, 20, ANY),
    Form("google-client-secret", "GOCSPX-", Body::Url, 24, 32),
    Form("azure-storage-key", "AccountKey=", Body::Base64, 40, ANY),
    Form("azure-shared-key", "SharedAccessKey=", Body::Base64, 40, ANY),
    Form("azure-client-secret", "Q~", Body::Dotted, 31, 34),
    Form("digitalocean-token", "dop_v1_", Body::Hex, 64, 64),
    Form("digitalocean-token", "doo_v1_", Body::Hex, 64, 64),
    Form("digitalocean-token", "dor_v1_", Body::Hex, 64, 64),
    Form("alibaba-access-key", "LTAI", Body::Alnum, 17, 21),
    Form("databricks-token", "dapi", Body::Hex, 32, 32),
    Form("heroku-key", "HRKU-AA", Body::Url, 58, 58),
    Form("fly-token", "fm2_", Body::Base64, 60, ANY),
    Form("netlify-token", "nfp_", Body::Alnum, 36, 40),
    Form("supabase-token", "sbp_", Body::Hex, 40, 40),
    Form("planetscale-token", "pscale_tkn_", Body::Dotted, 32, 64),
    Form("planetscale-password", "pscale_pw_", Body::Dotted, 32, 64),
    Form("pulumi-token", "pul-", Body::Hex, 40, 40),
    Form("terraform-token", ".atlasv1.", Body::Url, 60, 70),
    Form("vault-token", "hvs.", Body::Url, 24, ANY),
    Form("vault-token", "hvb.", Body::Url, 24, ANY),
    Form("doppler-token", "dp.pt.", Body::Alnum, 40, 44),
    Form("onepassword-token", "ops_eyJ", Body::Base64, 200, ANY),
    // Forges and registries of packages.
    Form("github-token", "ghp_", Body::Alnum, 36, ANY),
    Form("github-token", "gho_", Body::Alnum, 36, ANY),
    Form("github-token", "ghu_", Body::Alnum, 36, ANY),
    Form("github-token", "ghs_", Body::Alnum, 36, ANY),
    Form("github-token", "ghr_", Body::Alnum, 36, ANY),
    Form("github-fine-token", "github_pat_", Body::Url, 60, ANY),
    Form("gitlab-token", "glpat-", Body::Dotted, 20, ANY),
    Form("gitlab-token", "gldt-", Body::Url, 20, ANY),
    Form("gitlab-token", "glrt-", Body::Dotted, 20, ANY),
    Form("gitlab-token", "glcbt-", Body::Url, 20, ANY),
    Form("gitlab-token", "glptt-", Body::Hex, 40, 40),
    Form("gitlab-token", "glsoat-", Body::Url, 20, ANY),
    Form("gitlab-token", "glft-", Body::Url, 20, ANY),
    Form("gitlab-token", "glagent-", Body::Url, 50, ANY),
    Form("bitbucket-password", "ATBB", Body::Alnum, 32, 32),
    Form("atlassian-token", "ATATT3", Body::Base64, 100, ANY),
    Form("npm-token", "npm_", Body::Alnum, 36, 36),
    Form("pypi-token", "pypi-AgEIcHlwaS5vcmc", Body::Url, 50, ANY),
    Form("pypi-token", "pypi-AgENdGVzdC5weXBpLm9yZ", Body::Url, 50, ANY),
    Form("rubygems-key", "rubygems_", Body::Hex, 48, 48),
    Form("crates-token", "cio", Body::Alnum, 32, 32),
    Form("docker-token", "dckr_pat_", Body::Url, 27, ANY),
    Form("docker-token", "dckr_oat_", Body::Url, 27, ANY),
    Form("nuget-key", "oy2", Body::Alnum, 43, 43),
    // Chat.
    Form("slack-token", "xoxb-", Body::Url, 24, ANY),
    Form("slack-token", "xoxp-", Body::Url, 24, ANY),
    Form("slack-token", "xoxa-", Body::Url, 24, ANY),
    Form("slack-token", "xoxr-", Body::Url, 24, ANY),
    Form("slack-token", "xoxs-", Body::Url, 24, ANY),
    Form("slack-token", "xoxe-", Body::Url, 24, ANY),
    Form("slack-app-token", "xapp-", Body::Url, 24, ANY),
    Form("slack-webhook", "hooks.slack.com/services/", Body::Base64, 40, ANY),
    Form("slack-webhook", "hooks.slack.com/workflows/", Body::Base64, 40, ANY),
    Form("discord-webhook", "discord.com/api/webhooks/", Body::Base64, 60, ANY),
    Form("discord-webhook", "discordapp.com/api/webhooks/", Body::Base64, 60, ANY),
    Form("teams-webhook", "webhook.office.com/webhookb2/", Body::Url, 36, ANY),
    Form("telegram-token", ":AA", Body::Url, 32, 33),
    // Models.
    Form("openai-key", "sk-proj-", Body::Url, 40, ANY),
    Form("openai-key", "sk-svcacct-", Body::Url, 40, ANY),
    Form("openai-key", "sk-admin-", Body::Url, 40, ANY),
    Form("openai-key", "sk-", Body::Alnum, 32, ANY),
    Form("anthropic-key", "sk-ant-", Body::Url, 32, ANY),
    Form("openrouter-key", "sk-or-v1-", Body::Hex, 64, 64),
    Form("huggingface-token", "hf_", Body::Alnum, 30, 40),
    Form("groq-key", "gsk_", Body::Alnum, 48, 56),
    Form("xai-key", "xai-", Body::Alnum, 70, 90),
    Form("replicate-token", "r8_", Body::Alnum, 37, 40),
    Form("perplexity-key", "pplx-", Body::Alnum, 40, 60),
    Form("nvidia-key", "nvapi-", Body::Url, 60, 72),
    Form("langsmith-key", "lsv2_pt_", Body::Url, 40, 50),
    Form("langsmith-key", "lsv2_sk_", Body::Url, 40, 50),
    Form("tavily-key", "tvly-", Body::Url, 32, ANY),
    // Money.
    Form("stripe-key", "sk_live_", Body::Alnum, 16, ANY),
    Form("stripe-key", "rk_live_", Body::Alnum, 16, ANY),
    Form("stripe-key", "sk_test_", Body::Alnum, 16, ANY),
    Form("stripe-key", "rk_test_", Body::Alnum, 16, ANY),
    Form("webhook-secret", "whsec_", Body::Base64, 24, ANY),
    Form("square-token", "sq0atp-", Body::Url, 22, ANY),
    Form("square-token", "sq0csp-", Body::Url, 40, ANY),
    Form("braintree-token", "access_token$production$", Body::Alnum, 16, ANY),
    Form("shopify-token", "shpat_", Body::Hex, 32, 32),
    Form("shopify-token", "shpca_", Body::Hex, 32, 32),
    Form("shopify-token", "shppa_", Body::Hex, 32, 32),
    Form("shopify-token", "shpss_", Body::Hex, 32, 32),
    Form("razorpay-key", "rzp_live_", Body::Alnum, 14, ANY),
    Form("plaid-token", "access-production-", Body::Url, 36, 36),
    // Mail and messages.
    Form("sendgrid-key", "SG.", Body::Dotted, 60, 72),
    Form("twilio-key", "SK", Body::Hex, 32, 32),
    Form("mailgun-key", "key-", Body::Hex, 32, 32),
    // Watching and working.
    Form("grafana-token", "glsa_", Body::Url, 40, 42),
    Form("grafana-token", "glc_", Body::Base64, 32, ANY),
    Form("newrelic-key", "NRAK-", Body::Upper, 27, 27),
    Form("dynatrace-token", "dt0c01.", Body::Dotted, 80, 100),
    Form("sentry-token", "sntrys_", Body::Base64, 60, ANY),
    Form("sentry-token", "sntryu_", Body::Hex, 64, 64),
    Form("linear-key", "lin_api_", Body::Alnum, 32, 48),
    Form("notion-token", "ntn_", Body::Alnum, 40, 50),
    Form("notion-token", "secret_", Body::Alnum, 43, 43),
    Form("figma-token", "figd_", Body::Url, 36, ANY),
    Form("postman-key", "PMAK-", Body::Url, 59, 59),
    // Keys of tools and of Countersign.
    Form("age-key", "AGE-SECRET-KEY-1", Body::Upper, 58, 58),
    Form("age-key", "AGE-SECRET-KEY-PQ-1", Body::Upper, 50, ANY),
    Form("age-key", "AGE-PLUGIN-", Body::Upper, 40, ANY),
    Form("minisign-key", "RWRTY0Iy", Body::Base64, 60, ANY),
    Form("countersign-key", "csk_", Body::Url, 80, 84),
    Form("countersign-signer", "PRIVATE+KEY+", Body::Seen, 54, ANY),
    // The three parts of a token signed for JSON.
    Form("json-web-token", "eyJ", Body::Dotted, 40, ANY),
];

static FINDER: LazyLock<Finder> = LazyLock::new(|| Finder::exact(FORMS.iter().map(|form| form.1)));

/// How often one beginning is looked at inside of one body. A secret holds its own beginning once;
/// a text that is full of them would cost its square, and is refused instead.
const MAX_IN_ONE_BODY: u32 = 4;

pub(super) fn find(view: &View<'_>, found: &mut Vec<Span>) {
    // For each form, where the body at hand ends and how often it was looked at.
    let mut bodies = vec![(0, 0_u32); FORMS.len()];
    FINDER.each(view.bytes(), |hit| {
        let (Some(form), Some((end, looks))) = (FORMS.get(hit.index), bodies.get_mut(hit.index))
        else {
            return;
        };
        if form.stands_alone() && is_inside(view, hit.at) {
            return;
        }
        if hit.at >= *end {
            let start = hit.at + form.1.len();
            *end = start + span(view.bytes(), start, |byte| form.2.has(byte));
            *looks = 0;
        }
        *looks += 1;
        let place = match (*looks).cmp(&MAX_IN_ONE_BODY) {
            Ordering::Less => matches(form, view, hit.at, *end),
            Ordering::Equal => Some(hit.at..*end),
            Ordering::Greater => None,
        };
        found.extend(place.map(|Range { start, end }| Span { start, end, rule: form.0 }));
    });
}

impl Form {
    /// Whether nothing of a word may stand before its beginning.
    fn stands_alone(&self) -> bool {
        !["azure-client-secret", "telegram-token", "terraform-token"].contains(&self.0)
    }
}

/// Where the secret stands, if this is one. The characters of its body go on up to an end.
fn matches(form: &Form, view: &View<'_>, at: usize, end: usize) -> Option<Range<usize>> {
    let bytes = view.bytes();
    let Form(rule, beginning, _, least, most) = form;
    let start = at + beginning.len();
    let length = body_length(view, start, end.checked_sub(start)?, (*least, *most))?;
    let text = bytes.get(start..start + length)?;
    // A placeholder repeats itself; so few different characters are no secret.
    if distinct(text) < 5 || is_published(bytes.get(at..start + length)?) {
        return None;
    }
    particular(rule, bytes, at, text).map(|begin| begin..start + length)
}

/// Whether a word goes on here that began before. Where lines were put together, it does not.
fn is_inside(view: &View<'_>, at: usize) -> bool {
    let bytes = view.bytes();
    is_word(byte(bytes, at)) && is_word(before(bytes, at)) && !view.gap(at)
}

/// How long the body is. In a joined view it may end where two lines met.
fn body_length(
    view: &View<'_>,
    start: usize,
    length: usize,
    (least, most): (usize, usize),
) -> Option<usize> {
    if length < least {
        return None;
    }
    if length <= most {
        return Some(length);
    }
    (least..=most).find(|length| view.gap(start + length))
}

/// What some kinds must have besides.
fn particular(rule: &str, bytes: &[u8], at: usize, body: &[u8]) -> Option<usize> {
    let dots = body.iter().filter(|byte| **byte == b'.').count();
    let mixed = body.iter().any(u8::is_ascii_digit) && body.iter().any(u8::is_ascii_alphabetic);
    match rule {
        "json-web-token" => (dots >= 2 && is_json_header(bytes, at)).then_some(at),
        "sendgrid-key" | "dynatrace-token" => (dots == 1).then_some(at),
        // The name of the bot stands before: eight to ten digits.
        "telegram-token" => {
            let digits = bytes.get(..at)?.iter().rev().take_while(|b| b.is_ascii_digit()).count();
            (8..=10).contains(&digits).then(|| at - digits)
        }
        // Three characters and a digit stand before.
        "azure-client-secret" => {
            let lead = bytes.get(at.checked_sub(4)?..at)?;
            let digit = lead.last().is_some_and(u8::is_ascii_digit);
            (digit && lead.iter().all(|byte| Body::Dotted.has(*byte))).then(|| at - 4)
        }
        "terraform-token" => {
            let lead =
                bytes.get(..at)?.iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count();
            (lead >= 14).then(|| at - lead)
        }
        "vault-token" | "openai-key" | "crates-token" | "nuget-key" | "slack-token" => {
            mixed.then_some(at)
        }
        _ => Some(at),
    }
}

fn is_json_header(bytes: &[u8], at: usize) -> bool {
    let head = span(bytes, at, |byte| Body::Url.has(byte));
    let decoded = from_base64(bytes.get(at..at + head).unwrap_or_default());
    decoded.starts_with(b"{\"") && decoded.windows(5).any(|five| five == b"\"alg\"")
}

/// Keys that their makers print in their manuals: exactly these, since a word such as `EXAMPLE`
/// inside of a key proves nothing.
const PUBLISHED: [&str; 4] = [
    "AKIAIOSFODNN7EXAMPLE",
    "AKIAI44QH8DHBEXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    concat!("sk_test_", "4eC39HqLyjWDarjtT1zdp7dc"),
];

pub(super) fn is_published(value: &[u8]) -> bool {
    PUBLISHED.iter().any(|key| key.as_bytes() == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_good_order() {
        for Form(rule, beginning, _, least, most) in FORMS {
            assert!(beginning.len() >= 2 && least <= most, "{rule}");
            assert!(rule.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{rule}");
        }
        let mut beginnings: Vec<_> = FORMS.iter().map(|form| form.1).collect();
        beginnings.sort_unstable();
        beginnings.dedup();
        assert_eq!(beginnings.len(), FORMS.len());
    }
}

//! Every refusal is the one envelope, in the right order, and says nothing that it should not.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Bench, Setup, all_scopes};
use countersign_model::KeyScope;
use countersign_server::limit::{Rate, Rates};
use serde_json::json;

#[test]
fn a_good_request_is_answered() {
    let bench = Bench::start();
    let answer = bench.ask("POST", "/v1/echo", "", r#"{"a":1}"#);
    assert_eq!((answer.status, answer.json()), (200, json!({"tenant": "acme", "body": {"a": 1}})));
    assert_eq!(bench.ask("GET", "/v1/things/x", "", "").json(), json!({"id": "x"}));
    assert_eq!(bench.ask("POST", "/v1/things/x:poke", "", "").json(), json!({"id": "x"}));
    let head = bench.request("HEAD", "/v1/things/x", "", "");
    let mut stream = bench.connect();
    std::io::Write::write_all(&mut stream, &head).unwrap();
    assert!(common::line(&mut stream).starts_with("HTTP/1.1 200"));
}

#[test]
fn whoever_shows_no_key_learns_nothing() {
    let bench = Bench::start();
    let ask = |method: &str, path: &str, headers: &str| {
        bench
            .raw(format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").as_bytes())
    };
    // Before existence and before the method.
    for (method, path) in [
        ("GET", "/v1/things/x"),
        ("GET", "/v1/nowhere"),
        ("DELETE", "/v1/things/x"),
        ("GET", "/"),
        ("POST", "/v1/things/x:nothing"),
        ("GET", "/v1/things/%2e%2e"),
        ("OPTIONS", "/v1/echo"),
    ] {
        ask(method, path, "").refused(401, "unauthenticated");
    }
    for bad in ["Bearer x", "Bearer", "Basic YTpi", &bench.key, "Bearer csk_0000", "Bearer \u{1}"] {
        let answer = ask("GET", "/v1/things/x", &format!("authorization: {bad}\r\n"));
        if answer.status == 401 {
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.text().contains("csk_0"), "{}", answer.text());
        }
        answer.refused(
            if bad.contains('\u{1}') { 400 } else { 401 },
            if bad.contains('\u{1}') { "validation_error" } else { "unauthenticated" },
        );
    }
}

#[test]
fn keys_end() {
    let bench = Bench::start();
    let with = |key: &str| {
        let head = format!(
            "GET /v1/things/x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        bench.raw(head.as_bytes())
    };
    let expired = bench.ring.add_until(2, None, &all_scopes(), 1000);
    with(&expired).refused(401, "key_expired");
    let revoked = bench.ring.add(3, None, &all_scopes());
    assert_eq!(with(&revoked).status, 200);
    bench.ring.revoke(2);
    with(&revoked).refused(401, "key_revoked");
    let narrow = bench.ring.add(4, None, &[KeyScope::RunsCreate, KeyScope::RunsCancel]);
    let body = with(&narrow).refused(403, "forbidden");
    assert_eq!(body["details"]["requiredScope"], "runs:read");
    for answer in [with(&expired), with(&revoked), with(&narrow)] {
        assert!(!answer.text().contains("csk_"), "{}", answer.text());
    }
}

#[test]
fn a_key_without_a_tenant_belongs_to_the_default_one() {
    let bench = Bench::start();
    let key = bench.ring.add(2, None, &all_scopes());
    let request = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    assert_eq!(bench.raw(request.as_bytes()).json()["tenant"], "default");
}

#[test]
fn paths_and_methods_that_are_not_there() {
    let bench = Bench::start();
    for path in [
        "/",
        "/v1",
        "/v1/nowhere",
        "/v1/things/x/",
        "/v1/things/x/~poke",
        "/~",
        "/v1/things/:poke",
        "/v1/things/x:other",
        "//v1/echo",
    ] {
        bench.ask("GET", path, "", "").refused(404, "not_found");
    }
    for path in [
        "/v1/things/absent",
        "/v1/things/%2e%2e",
        "/v1/things/a%2fb",
        "/v1/things/a%3Apoke",
        "/v1/things/%00",
        "/v1/things/..%2f..%2fetc",
    ] {
        bench.ask("GET", path, "", "").refused(404, "run_not_found");
    }
    // A path that is not even UTF-8 once decoded.
    bench.ask("GET", "/v1/things/%ff", "", "").refused(400, "validation_error");
    let answer = bench.ask("DELETE", "/v1/things/x", "", "");
    answer.refused(405, "method_not_allowed");
    assert_eq!(answer.header("allow"), Some("GET"));
    bench.ask("GET", "/v1/things/x:poke", "", "").refused(405, "method_not_allowed");
    bench
        .ask("OPTIONS", "/v1/echo", "origin: http://localhost\r\n", "")
        .refused(405, "method_not_allowed");
    bench
        .raw(b"POST /.well-known/openwop HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .refused(405, "method_not_allowed");
}

#[test]
fn there_is_no_registry_of_packs() {
    let bench = Bench::start();
    for path in ["/v1/packs", "/v1/packs/x", "/v1/packs/x/-/1.0.0.tgz"] {
        let answer = bench.ask("GET", path, "", "");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (404, Some("text/plain; charset=utf-8"))
        );
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).is_err());
    }
    bench.ask("GET", "/v1/packsx", "", "").refused(404, "not_found");
}

#[test]
fn bodies_that_are_not_what_they_should_be() {
    let bench = Bench::start();
    for bad in [
        "{",
        "[]",
        "1",
        "nul",
        "{\"a\":1,\"a\":2}",
        "{\"a\":NaN}",
        "{\"a\":1}x",
        "\u{feff}{}",
        "{\"a\":12345678901234567890}",
    ] {
        bench.ask("POST", "/v1/echo", "", bad).refused(400, "validation_error");
    }
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    bench
        .ask("POST", "/v1/echo", "", &format!("{{\"a\":{deep}}}"))
        .refused(400, "validation_error");
    let plain = |kind: &str| {
        let key = &bench.key;
        bench.raw(format!("POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{kind}content-length: 2\r\n\r\n{{}}").as_bytes())
    };
    plain("").refused(415, "unsupported_media_type");
    plain("content-type: text/plain\r\n").refused(415, "unsupported_media_type");
    assert_eq!(plain("content-type: Application/JSON; charset=utf-8\r\n").status, 200);
    assert_eq!(plain("content-type: application/merge-patch+json\r\n").status, 200);
    let mut bytes = bench.request("POST", "/v1/echo", "", "{\"a\":\"xx\"}");
    let place = bytes.len() - 4;
    bytes[place] = 0xff;
    bench.raw(&bytes).refused(400, "validation_error");
}

#[test]
fn what_breaks_inside_stays_inside() {
    let bench = Bench::start();
    let body = bench.ask("GET", "/v1/broken", "", "").refused(500, "internal_error");
    assert!(!body.to_string().contains("sector"), "{body}");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = bench.ask("GET", "/v1/panics", &format!("traceparent: {trace}\r\n"), "");
    let body = answer.refused(500, "internal_error");
    assert_eq!(body["details"]["correlationId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(bench.ask("GET", "/v1/things/x", "", "").status, 200);
}

#[test]
fn origins_and_names_of_others_are_refused() {
    let bench = Bench::start();
    let (key, port) = (&bench.key, bench.address.port());
    let ask = |host: &str, more: &str| {
        bench.raw(
            format!("GET /v1/things/x HTTP/1.1\r\n{host}authorization: Bearer {key}\r\n{more}\r\n")
                .as_bytes(),
        )
    };
    assert_eq!(
        ask("host: localhost\r\n", &format!("origin: http://127.0.0.1:{port}\r\n")).status,
        200
    );
    for origin in ["null", "http://evil.example", "https://localhost", "chrome-extension://x"] {
        ask("host: localhost\r\n", &format!("origin: {origin}\r\n")).refused(403, "forbidden");
    }
    for host in ["evil.example", "localhost.evil.example", "169.254.1.1"] {
        ask(&format!("host: {host}\r\n"), "").refused(403, "forbidden");
    }
    ask("", "").refused(400, "validation_error");
    ask("host: localhost\r\nhost: localhost\r\n", "").refused(400, "validation_error");
    // The open document is no way around it.
    bench
        .raw(b"GET /.well-known/openwop HTTP/1.1\r\nhost: evil.example\r\n\r\n")
        .refused(403, "forbidden");
    let absolute = format!(
        "GET http://evil.example/v1/things/x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    bench.raw(absolute.as_bytes()).refused(403, "forbidden");
}

#[test]
fn rates_are_limited_before_scopes_are_asked() {
    let rates = Rates { key: Some(Rate { burst: 3, per_second: 0.1 }), ..Rates::default() };
    let bench = Bench::with(Setup { rates, ..Setup::default() });
    let narrow = bench.ring.add(2, None, &[KeyScope::AuditRead]);
    let ask = || {
        let head = format!(
            "GET /v1/things/x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {narrow}\r\n\r\n"
        );
        bench.raw(head.as_bytes())
    };
    for _ in 0..3 {
        ask().refused(403, "forbidden");
    }
    let answer = ask();
    let body = answer.refused(429, "rate_limited");
    let seconds: f64 = answer.header("retry-after").unwrap().parse().unwrap();
    let millis = body["details"]["retryAfterMs"].as_f64().unwrap();
    assert!((seconds - millis / 1000.0).abs() <= 1.5, "{seconds} {millis}");
    assert_eq!(body["details"]["scope"], "key");
    // Others, and what is open, go on.
    assert_eq!(bench.ask("GET", "/v1/things/x", "", "").status, 200);
    for _ in 0..20 {
        assert_eq!(
            bench.raw(b"GET /.well-known/openwop HTTP/1.1\r\nhost: localhost\r\n\r\n").status,
            200
        );
    }
}

#[test]
fn what_is_offered_is_published() {
    let bench = Bench::start();
    let answer = bench.raw(b"GET /.well-known/openwop HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("public, max-age=300")));
    assert!(answer.header("capabilities-etag").is_some());
    if let Some(schema) = common::schema("capabilities") {
        let document = answer.json();
        let problems: Vec<String> = schema
            .iter_errors(&document)
            .map(|e| format!("{e} at {}", e.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{problems:#?}");
    }
}

/// The document cannot lie: each operation in it is there, and nothing else is.
#[test]
fn the_openapi_document_is_true() {
    let bench = Bench::start();
    let document = bench.raw(b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n").json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(
        paths.values().map(|item| item.as_object().unwrap().len()).sum::<usize>(),
        common::table().facts().count() + 1
    );
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["operationId"].is_string() && operation["responses"].is_object());
            let path = path.replace("{id}", "x").replace("{runId}", "run-1").replace("{kib}", "1");
            if path.ends_with("/events") || path.ends_with("/poll") || path.ends_with("/panics") {
                continue;
            }
            let answer = bench.ask(
                &method.to_uppercase(),
                &path,
                "",
                if method == "post" { "{}" } else { "" },
            );
            let declared = operation["responses"].as_object().unwrap();
            assert!(
                declared.contains_key(&answer.status.to_string()),
                "{method} {path} {}",
                answer.status
            );
            assert!(answer.status != 404 && answer.status != 405, "{method} {path}");
        }
    }
}

#[test]
fn a_route_has_its_own_bounds_and_parameters() {
    let bench = Bench::start();
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let answer = bench.ask("POST", "/v1/small?q=a+b", trace, "{}").json();
    assert_eq!(answer, json!({"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "q": "a b"}));
    bench.ask("POST", "/v1/small?q=1&q=2", "", "").refused(400, "validation_error");
    let body =
        bench.ask("POST", "/v1/small", "", "{\"a\":12345}").refused(413, "payload_too_large");
    assert_eq!(body["details"]["maxBytes"], 10);
}

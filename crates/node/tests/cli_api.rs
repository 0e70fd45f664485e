//! The local API on TCP, its document, and its events as a browser takes them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on has failed, helpers' parts too"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use support::{Place, Running};

/// A daemon whose API is on TCP, where it is, and its token.
fn on_tcp(place: &Place) -> (Running, String, String) {
    let mut running = place.start(["run", "--set", "api.listen=127.0.0.1:0", "--json"]);
    let up = running.line();
    let url = up["api"].as_str().expect("where").to_owned();
    let token = fs::read_to_string(place.home().join("api.token")).expect("a token");
    let address = url.trim_start_matches("http://").to_owned();
    (running, address, token.trim().to_owned())
}

/// Sends a request with these headers, and a body; gives the answer as it came.
fn ask(address: &str, line: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn cli_api_on_tcp_answers_no_page_of_a_stranger() {
    let place = Place::with_node();
    let (mut running, address, token) = on_tcp(&place);
    let mode = fs::metadata(place.home().join("api.token"))
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let bearer = format!("Bearer {token}");
    let (host, right) = (
        ("Host", address.as_str()),
        ("Authorization", bearer.as_str()),
    );
    let status = ask(&address, "GET /v1/status", &[host, right], "");
    assert!(status.starts_with("HTTP/1.1 200"), "{status}");

    let refused = |line: &str, headers: &[(&str, &str)], body: &str, code: &str| {
        let answer = ask(&address, line, headers, body);
        assert!(
            answer.contains(code) && answer.starts_with("HTTP/1.1 4"),
            "{line}: {answer}"
        );
        let head = answer.to_lowercase();
        assert!(!head.contains("access-control"), "{answer}");
        assert!(!answer.contains("did:key"), "{answer}");
    };
    // A stranger's name that leads here, with and without what a browser adds.
    refused(
        "GET /v1/status",
        &[("Host", "rebound.example"), right],
        "",
        "api/host_not_allowed",
    );
    // Another page: what a browser sends of itself, and the question it asks before.
    let page = ("Origin", "http://evil.example");
    refused(
        "GET /v1/status",
        &[host, page, right],
        "",
        "api/origin_not_allowed",
    );
    refused(
        "GET /v1/status",
        &[host, ("Sec-Fetch-Site", "cross-site"), right],
        "",
        "api/origin_not_allowed",
    );
    let asks = ("Access-Control-Request-Method", "POST");
    refused(
        "OPTIONS /v1/send",
        &[host, page, asks],
        "",
        "api/origin_not_allowed",
    );
    refused(
        "OPTIONS /v1/send",
        &[host, asks, right],
        "",
        "api/no_such_request",
    );
    // A form of a page needs no question before it.
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let peer = "url=http%3A%2F%2F127.0.0.1%3A1";
    refused(
        "POST /v1/peers",
        &[host, page, form],
        peer,
        "api/origin_not_allowed",
    );
    refused(
        "POST /v1/peers",
        &[host, ("Origin", "null"), form],
        peer,
        "api/origin_not_allowed",
    );
    refused("POST /v1/peers", &[host, form], peer, "api/no_token");
    refused(
        "POST /v1/peers",
        &[host, form, right],
        peer,
        "api/bad_request",
    );
    let text = ("Content-Type", "text/plain");
    refused(
        "POST /v1/peers",
        &[host, text, right],
        r#"{"url": "http://127.0.0.1:1"}"#,
        "api/bad_request",
    );
    for wrong in [
        "Bearer ",
        "Basic eDp5",
        &format!("Bearer {}", "0".repeat(64)),
    ] {
        refused(
            "GET /v1/status",
            &[host, ("Authorization", wrong)],
            "",
            "api/no_token",
        );
    }
    let peers = place.overlane(["peer", "list", "--json"]).json();
    assert_eq!(peers["peers"], serde_json::json!([]));
    // Each is counted, under its code.
    let counted = place.overlane(["status", "--json"]).json()["api_refused"].clone();
    let expected = serde_json::json!({
        "api/host_not_allowed": 1, "api/no_token": 4, "api/origin_not_allowed": 5,
    });
    assert_eq!(counted, expected);

    assert_eq!(running.terminate(), Some(0));
    // A token that others could have read is none.
    let file = place.home().join("api.token");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    let start = ["run", "--set", "api.listen=127.0.0.1:0", "--json"];
    place.overlane(start).is_refused(4, "api/token_open");
    let open = ["run", "--set", "api.listen=0.0.0.0:0", "--json"];
    place.overlane(open).is_refused(2, "home/setting");
}

#[test]
fn cli_api_events_come_as_a_browser_takes_them() {
    let place = Place::with_node();
    let (_running, address, token) = on_tcp(&place);
    let mut stream = TcpStream::connect(&address).expect("connected");
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("a line"));
    let mut head = String::new();
    let first = lines.find(|line| {
        head += line;
        line.starts_with("event:")
    });
    assert!(head.contains("text/event-stream"), "{head}");
    assert_eq!(first.as_deref(), Some("event: watching"));
    // One that comes while it is read, and its name and data.
    let other = Place::with_node();
    let daemon = other.daemon();
    assert_eq!(
        place.overlane(["peer", "add", daemon.url(), "--json"]).code,
        0
    );
    assert!(lines.any(|line| line == "event: link_up"));
    let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
    let data: Value = serde_json::from_str(&data.expect("data")).expect("an object");
    assert_eq!(
        (&data["event"], &data["peer"]),
        (&"link_up".into(), &daemon.did().into())
    );
}

#[test]
fn cli_dashboard_says_where_it_is_and_its_page_holds_no_secret() {
    let place = Place::with_node();
    place
        .overlane(["dashboard", "--json"])
        .is_refused(5, "api/not_running");
    let daemon = place.daemon();
    place
        .overlane(["dashboard", "--json"])
        .is_refused(2, "cli/no_dashboard");
    drop(daemon);
    let (_running, address, token) = on_tcp(&place);
    let url = place.overlane(["dashboard", "--json"]).json()["url"].clone();
    assert_eq!(url, format!("http://{address}/dashboard#{token}"));
    assert_eq!(place.overlane(["dashboard"]).out.trim(), url);

    let host = ("Host", address.as_str());
    let page = ask(&address, "GET /dashboard", &[host], "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let head = page.to_lowercase();
    for said in [
        "content-type: text/html",
        "content-security-policy: default-src 'none'; script-src 'self'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cross-origin-opener-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(head.contains(said), "{said}: {page}");
    }
    assert!(
        !page.contains(&token) && !page.contains("did:key"),
        "{page}"
    );
    let script = ask(&address, "GET /dashboard/app.js", &[host], "");
    assert!(script.contains("content-type: text/javascript"), "{script}");
    // Without the token there is nothing else, by any spelling.
    for path in [
        "/dashboard/nothing.js",
        "/dashboard/../v1/status",
        "/dashboard/..%2fv1%2fstatus",
        "/dashboard/%ff",
        "/dashboard/",
        "//dashboard",
    ] {
        let answer = ask(&address, &format!("GET {path}"), &[host], "");
        assert!(answer.starts_with("HTTP/1.1 40"), "{path}: {answer}");
        assert!(!answer.contains("did:key"), "{path}: {answer}");
    }
    let posted = ask(&address, "POST /dashboard", &[host], "");
    assert!(posted.starts_with("HTTP/1.1 404"), "{posted}");
    assert!(posted.contains("api/no_such_request"), "{posted}");
    let rebound = ask(&address, "GET /dashboard", &[("Host", "x.example")], "");
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");

    // A stand-in for what opens a page in the user's browser keeps what it was told.
    let opener = place.dir.path().join("xdg-open");
    fs::write(&opener, "#!/bin/sh\necho \"$@\" > \"$0.told\"\n").expect("written");
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = place.command(["dashboard", "--open", "--json"]);
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", place.dir.path().display()));
    assert!(command.output().expect("a process").status.success());
    let told = fs::read_to_string(opener.with_extension("told")).expect("what it was told");
    let file = place.home().join("dashboard.html");
    assert_eq!(told.trim(), file.display().to_string(), "no token in it");
    let mode = fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let lead = fs::read_to_string(&file).expect("a page");
    assert!(lead.contains(url.as_str().expect("a text")), "{lead}");
    let log = place.overlane(["log", "--lines", "--json"]).out;
    assert!(!log.contains(&token), "{log}");
}

#[test]
fn cli_api_takes_no_mistake_of_who_asks_for_a_fault_of_its_own() {
    let place = Place::with_node();
    let (mut running, address, token) = on_tcp(&place);
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Host", address.as_str()),
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let below_a_file = place.home().join("config.toml/copy");
    let below_a_file = below_a_file.to_str().expect("text");
    let copies = serde_json::json!([{"path": "/x\u{0}y"}, {"path": below_a_file}]);
    let copies = copies.as_array().expect("requests").iter();
    let copies = copies.map(|body| ("POST /v1/backup", body.to_string(), "backup/no_place"));
    let list = ("POST /v1/key/rotate", "[]".to_owned(), "api/bad_request");
    for (line, body, code) in copies.chain([list]) {
        let answer = ask(&address, line, &headers, &body);
        assert!(answer.starts_with("HTTP/1.1 400"), "{line}: {answer}");
        assert!(answer.contains(code), "{line}: {answer}");
    }
    assert_eq!(running.terminate(), Some(0));
    place
        .overlane(["backup", below_a_file, "--json"])
        .is_refused(2, "backup/no_place");
}

#[test]
fn cli_api_tells_verdicts_over_time() {
    let pair = support::Pair::linked();
    pair.send(&["hello"]);
    pair.take();
    let home = overlane_node::home::Home::at(pair.there.home());
    let client = overlane_node::api::Client::of(&home);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let report = client.get::<Value>("/v1/admissions");
    let report: Value = runtime.block_on(report).expect("an answer");
    let spans = report["spans"].as_array().expect("spans");
    let firsts = spans
        .iter()
        .filter_map(|span| span["verdicts"]["first"].as_u64());
    let firsts: u64 = firsts.sum();
    assert!(firsts >= 1, "{report}");
    assert_eq!(report["total"]["first"], firsts, "{report}");
}

#[test]
fn cli_api_tells_in_its_document_what_it_answers() {
    let place = Place::with_node();
    let printed = place.overlane(["api", "--openapi"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    let document = printed.json();
    let paths = document["paths"].as_object().expect("paths");
    for path in [
        "/dashboard",
        "/metrics",
        "/v1/admissions",
        "/v1/bounds",
        "/v1/events",
        "/v1/health",
        "/v1/links",
        "/v1/peers",
        "/v1/refs",
        "/v1/send",
        "/v1/status",
        "/v1/streams",
        "/v1/upload",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    // Every schema that is named is there.
    let text = document.to_string();
    let named: BTreeSet<&str> = text
        .split("#/components/schemas/")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    let missing: Vec<_> = named
        .iter()
        .filter(|name| !schemas.contains_key(**name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");

    let (_running, address, token) = on_tcp(&place);
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Host", address.as_str()),
        ("Authorization", bearer.as_str()),
    ];
    let served = ask(&address, "GET /v1/openapi.json", &headers, "");
    assert!(served.contains("Overlane local API"), "{served}");
    // What takes no body is answered as the document says.
    for (path, operations) in paths {
        let streams = ["/v1/events", "/v1/watch"].contains(&path.as_str());
        let path = path.replace("{file}", "style.css");
        if operations.get("get").is_some() && !streams {
            let answer = ask(&address, &format!("GET {path}"), &headers, "");
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        }
    }
    let where_it_is = place.overlane(["api", "--json"]).json();
    assert!(
        where_it_is["socket"]
            .as_str()
            .is_some_and(|it| it.ends_with("overlane.sock"))
    );
}

#[test]
fn cli_api_shows_streams_and_health() {
    let pair = support::Pair::linked();
    pair.send(&["hello"]);
    pair.take();
    let ask = |place: &Place, path: &str| -> Value {
        let home = overlane_node::home::Home::at(place.home());
        let client = overlane_node::api::Client::of(&home);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(client.get(path)).expect("an answer")
    };
    let there = ask(&pair.there, "/v1/streams");
    let receiving = there["receiving"].as_array().expect("streams");
    let one = receiving.iter().find(|it| {
        it["stream"]
            .as_str()
            .is_some_and(|it| it.ends_with("application"))
    });
    let one = one.expect("the stream that was sent in");
    assert_eq!(one["admitted"], 1, "{there}");
    assert_eq!(there["left_off"], 0);
    let here = ask(&pair.here, "/v1/streams");
    let sending = here["sending"].as_array().expect("streams");
    assert!(
        sending.iter().any(|it| it["stream"] == one["stream"]),
        "{here}"
    );
    assert_eq!(ask(&pair.here, "/v1/health")["healthy"], true);
    assert_eq!(
        ask(&pair.here, "/v1/links")["links"][0]["peer"],
        pair.receiver.did()
    );
}

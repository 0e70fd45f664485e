//! The **dashboard**: one page that shows a node, served to browsers on this machine.
//!
//! Law (nothing in the page): what is served here is the same for everybody, and says nothing of any node. What the
//! page shows it asks the API for, with the token that stands behind `#` in its address, which browsers
//! send to nobody; it takes the token out of the address at once. Law (own code alone): the page may run,
//! load and ask nothing that does not come from here ([`POLICY`]), and stands in no other page.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::openapi::Refused;

/// Where the page is.
pub const DASHBOARD_PATH: &str = "/dashboard";

/// What the page may do: its scripts, style, icon and questions come from and go to here alone; no script, style or
/// handler stands in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const PAGE: &str = include_str!("index.html");

/// What the page loads: name, kind, text.
const FILES: &[(&str, &str, &str)] = &[
    ("style.css", CSS, include_str!("style.css")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("app.js", SCRIPT, include_str!("app.js")),
    ("ask.js", SCRIPT, include_str!("ask.js")),
    ("dom.js", SCRIPT, include_str!("dom.js")),
    ("words.js", SCRIPT, include_str!("words.js")),
    ("ring.js", SCRIPT, include_str!("ring.js")),
    ("links.js", SCRIPT, include_str!("links.js")),
    ("admissions.js", SCRIPT, include_str!("admissions.js")),
    ("mail.js", SCRIPT, include_str!("mail.js")),
    ("bounds.js", SCRIPT, include_str!("bounds.js")),
    ("events.js", SCRIPT, include_str!("events.js")),
];

/// The dashboard's page. It is no secret and takes no token; what it shows does.
#[utoipa::path(get, path = "/dashboard", security(()),
    responses((status = 200, description = "the page", body = String, content_type = "text/html"), Refused))]
pub(super) async fn page() -> Response {
    answer(HTML, PAGE)
}

/// What the dashboard's page loads.
#[utoipa::path(get, path = "/dashboard/{file}", security(()), params(("file" = String, Path, description = "its name")),
    responses((status = 200, description = "the file", content(
        (String = "text/javascript"), (String = "text/css"), (String = "image/svg+xml"))), Refused))]
pub(super) async fn file(name: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    let Path(name) = name.map_err(|_| ApiError::NoSuchRequest)?;
    let file = FILES.iter().find(|(known, _, _)| *known == name);
    let (_, kind, text) = file.ok_or(ApiError::NoSuchRequest)?;
    Ok(answer(kind, text))
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    let head = [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY)];
    (head, text).into_response()
}

/// What every answer on TCP says to a browser: it is data of this origin alone, and is not kept.
const FOR_BROWSERS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// Says it.
pub(super) async fn for_browsers(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    for (name, value) in FOR_BROWSERS {
        let name = HeaderName::from_static(name);
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in quotes behind `before` in a text.
    fn named<'a>(text: &'a str, before: &str) -> Vec<&'a str> {
        let rest = text.split(before).skip(1);
        rest.filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_page_is_whole_and_holds_nothing_that_its_policy_forbids() {
        let known: Vec<_> = FILES.iter().map(|(name, _, _)| *name).collect();
        let mut wanted = named(PAGE, "\"/dashboard/");
        for (_, _, script) in FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            wanted.extend(named(script, "from \"./"));
        }
        assert!(wanted.len() >= known.len(), "{wanted:?}");
        for name in &wanted {
            assert!(known.contains(name), "{name} is asked for and not there");
        }
        for name in &known {
            assert!(wanted.contains(name), "{name} is there and not asked for");
        }
        let all = FILES.iter().map(|(name, _, text)| (*name, *text));
        for (name, text) in all.chain([("index.html", PAGE)]) {
            for forbidden in [
                "style=\"",
                "javascript:",
                "innerHTML",
                "eval(",
                "https://",
                "@import",
                "localStorage",
            ] {
                assert!(!text.contains(forbidden), "{name} holds {forbidden}");
            }
        }
        let handlers = PAGE
            .split_whitespace()
            .filter(|word| word.starts_with("on") && word.contains("=\""));
        assert_eq!(handlers.count(), 0);
        let scripts = PAGE.split("<script").skip(1);
        assert!(
            scripts
                .clone()
                .all(|it| it.starts_with(" type=\"module\" src=\"/dashboard/"))
        );
        assert_eq!(scripts.count(), 1);
    }
}

//! The address of a node.

/// The one form of a node's signalling address: `http://HOST:PORT`.
///
/// # Errors
/// What is wrong with it, in words.
pub fn peer_url(text: &str) -> Result<String, String> {
    let wrong = |cause: &str| Err(format!("\"{text}\" is no peer URL: {cause}"));
    let Ok(uri) = text.parse::<axum::http::Uri>() else {
        return wrong("expected http://HOST:PORT");
    };
    match (uri.scheme_str(), uri.authority(), uri.port_u16()) {
        (Some("http"), Some(authority), Some(_)) if authority.host().is_empty() => {
            wrong("the host is missing, as in http://127.0.0.1:7420")
        }
        (Some("http"), Some(authority), Some(_)) => match uri.path_and_query() {
            Some(more) if more != "/" => wrong("nothing may follow the port"),
            _ => Ok(format!("http://{authority}")),
        },
        (Some("http"), ..) => wrong("the port is missing, as in http://127.0.0.1:7420"),
        _ => wrong("it must begin with http://"),
    }
}

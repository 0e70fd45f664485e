//! `api`: where a node can be asked by programs, and what.

use overlane_core::Fault;
use overlane_node::api::openapi;
use overlane_node::home::Home;
use serde_json::json;

use super::config::config;
use super::output::{Done, Failure, Output};

/// Prints the document of the API, which needs no node.
pub(super) fn document(output: &Output) -> Result<Done, Failure> {
    let document = openapi();
    let text = if output.json {
        document.to_json()
    } else {
        document.to_pretty_json()
    };
    let unwritten =
        |cause: serde_json::Error| Failure::new("cli/openapi", Fault::Usage, cause.to_string());
    output.line(&text.map_err(unwritten)?)?;
    Ok(Done::Yes)
}

/// Shows where it is.
pub(super) fn api(home: &Home, output: &Output) -> Result<Done, Failure> {
    let listen = config(home)?.api.listen;
    let url = listen.map(|address| format!("http://{address}"));
    let socket = home.socket_path().display().to_string();
    let token = home.token_path().display().to_string();
    let answer = json!({"socket": socket, "url": url, "token_file": token});
    output.answer(&answer, |_| match &url {
        Some(url) => format!("  socket   {socket}\n  url      {url}\n  token    in {token}"),
        None => format!(
            "  socket   {socket}\n  url      none: {} run --set api.listen=127.0.0.1:7490",
            output.overlane
        ),
    })?;
    Ok(Done::Yes)
}

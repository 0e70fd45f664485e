//! `dashboard`: where a browser shows the running node.

use std::process::{Command, Stdio};

use overlane_core::Fault;
use overlane_node::api::{Client, DASHBOARD_PATH, StatusReport, token_of};
use overlane_node::home::Home;
use serde_json::json;
use zeroize::Zeroizing;

use super::ask;
use super::output::{Done, Failure, Output};

/// What opens a page in the user's browser.
const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Prints the page's address, and opens it if that is asked for.
pub(super) fn dashboard(home: &Home, open: bool, output: &Output) -> Result<Done, Failure> {
    let client = Client::of(home);
    let report = ask(async {
        let report = client.get::<StatusReport>("/v1/status").await;
        report.map_err(|error| Failure::of_daemon(&error))
    })?;
    let missing = || {
        let message = "the running node answers on its Unix socket alone, which no browser can ask";
        Failure::new("cli/no_dashboard", Fault::Usage, message)
    };
    let api = report.api.ok_or_else(missing)?;
    let token = token_of(home)?.ok_or_else(missing)?;
    let url = Zeroizing::new(format!("{api}{DASHBOARD_PATH}#{}", *token));
    if open {
        open_page(home, &url)?;
    }
    output.answer(&json!({ "url": *url, "opened": open }), |_| (*url).clone())?;
    Ok(Done::Yes)
}

/// Everybody on the machine can read what a program was started with: so the browser is led there by a
/// file that its user alone can read.
fn open_page(home: &Home, url: &str) -> Result<(), Failure> {
    // The address is of letters, digits and marks that mean nothing in a page.
    let page = Zeroizing::new(format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><title>Overlane</title>\n"
    ));
    home.write_dashboard(&page)?;
    let failed = |cause: String| {
        let message = format!("{OPENER} does not open the page: {cause}");
        Failure::new("cli/no_browser", Fault::Usage, message)
    };
    let opener = Command::new(OPENER)
        .arg(home.dashboard_path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let status = opener.map_err(|cause| failed(cause.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(status.to_string())),
    }
}

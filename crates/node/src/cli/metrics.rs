//! `metrics`: a node's numbers as OpenMetrics text.

use overlane_core::Fault;
use overlane_node::api::{BoundsReport, Client, StatusReport, metrics_page, metrics_text};
use overlane_node::home::Home;
use serde_json::json;

use super::args::Metrics;
use super::ask;
use super::output::{Done, Failure, Output};

/// Prints the page of the documentation, which needs no node.
pub(super) fn page(output: &Output) -> Result<Done, Failure> {
    output.line(metrics_page().trim_end())?;
    Ok(Done::Yes)
}

/// Prints the running node's.
pub(super) fn metrics(home: &Home, asked: &Metrics, output: &Output) -> Result<Done, Failure> {
    if asked.page {
        return page(output);
    }
    let client = Client::of(home);
    let (status, bounds) = ask(async {
        let status = client.get::<StatusReport>("/v1/status").await;
        let bounds = client.get::<BoundsReport>("/v1/bounds").await;
        let failed = |error| Failure::of_daemon(&error);
        Ok::<_, Failure>((status.map_err(failed)?, bounds.map_err(failed)?))
    })?;
    let text = metrics_text(status, bounds.bounds)
        .map_err(|cause| Failure::new("cli/metrics", Fault::Usage, cause.to_string()))?;
    output.answer(&json!({ "openmetrics": text }), |_| {
        text.trim_end().to_owned()
    })?;
    Ok(Done::Yes)
}

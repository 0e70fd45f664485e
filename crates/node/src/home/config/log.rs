//! What is logged.

use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};

/// What the targets of this node's own crates begin with.
const OWN_TARGETS: &str = "overlane";

/// A library's target that tells nothing unless it is named: ways that ICE tries by a TURN server and
/// that lead nowhere are errors to it, and how the server fared the node says itself.
pub(super) const QUIET_TARGET: &str = "webrtc::peer_connection::transport::turn_relayer";

/// What is logged: a level, or levels by target ("info,overlane_node::link=debug"). A level alone
/// is that of the node's own messages: the libraries under it warn of what it handles, so they tell
/// errors only, unless a target names them ("warn,rtc=debug").
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter {
    text: String,
    /// Boxed, as it is some hundred bytes that few ask for.
    targets: Box<Targets>,
}

impl LogFilter {
    /// The filter, for a subscriber.
    pub fn targets(&self) -> Targets {
        Targets::clone(&self.targets)
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self {
            text: "warn".to_owned(),
            targets: Box::new(own(&Targets::new().with_default(LevelFilter::WARN))),
        }
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |cause: String| format!("\"{text}\" is no log filter: {cause}");
        // A target without a level would be taken for a level misspelt, and silence all else.
        let bare = |part: &&str| match part.rsplit_once('=') {
            Some((_, level)) => level.is_empty(),
            None => part.parse::<LevelFilter>().is_err(),
        };
        if let Some(part) = text.split(',').find(bare) {
            return Err(wrong(format!("\"{part}\" is no level, and has none")));
        }
        let targets: Targets = text
            .parse()
            .map_err(|error: tracing_subscriber::filter::ParseError| wrong(error.to_string()))?;
        Ok(Self {
            text: text.to_owned(),
            targets: Box::new(own(&targets)),
        })
    }
}

/// The same, with the default level for this node's own targets, and errors only of all others.
fn own(targets: &Targets) -> Targets {
    let level = targets.default_level().unwrap_or(LevelFilter::OFF);
    Targets::new()
        .with_default(level.min(LevelFilter::ERROR))
        .with_target(QUIET_TARGET, LevelFilter::OFF)
        .with_target(OWN_TARGETS, level)
        .with_targets(targets.iter())
}

//! Words of the local API that are the protocol's: whose fault, which class.

use std::fmt;
use std::str::FromStr;

use overlane_core::{Class, Fault};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whose fault a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// The other side sent what no honest peer sends.
    PeerMisbehaved,
    /// A bound, lifetime or policy refused.
    RefusedByBound,
    /// The store failed closed.
    StoreFailedClosed,
    /// It cannot be done as asked.
    Usage,
    /// The other side could not be reached.
    Unreachable,
}

impl From<Fault> for FaultName {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::PeerMisbehaved => Self::PeerMisbehaved,
            Fault::RefusedByBound => Self::RefusedByBound,
            Fault::StoreFailedClosed => Self::StoreFailedClosed,
            Fault::Usage => Self::Usage,
            Fault::Unreachable => Self::Unreachable,
        }
    }
}

impl From<FaultName> for Fault {
    fn from(name: FaultName) -> Self {
        match name {
            FaultName::PeerMisbehaved => Self::PeerMisbehaved,
            FaultName::RefusedByBound => Self::RefusedByBound,
            FaultName::StoreFailedClosed => Self::StoreFailedClosed,
            FaultName::Usage => Self::Usage,
            FaultName::Unreachable => Self::Unreachable,
        }
    }
}

/// A traffic class by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClassName {
    /// DHT control.
    Control,
    /// Storage.
    Storage,
    /// End-to-end sessions.
    E2e,
    /// Application.
    #[default]
    Application,
}

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Class::from(*self).name())
    }
}

impl FromStr for ClassName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let class = Class::ALL.into_iter().find(|class| class.name() == name);
        class
            .map(Self::from)
            .ok_or_else(|| format!("\"{name}\" is no class"))
    }
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Control => Self::Control,
            ClassName::Storage => Self::Storage,
            ClassName::E2e => Self::E2e,
            ClassName::Application => Self::Application,
        }
    }
}

impl From<Class> for ClassName {
    fn from(class: Class) -> Self {
        match class {
            Class::Control => Self::Control,
            Class::Storage => Self::Storage,
            Class::E2e => Self::E2e,
            Class::Application => Self::Application,
        }
    }
}

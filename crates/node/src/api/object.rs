//! What a request's body is written as.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that was written as an object. By itself a derived form takes a list of its fields' values as well,
/// which the API's document does not say, and nothing at all for what has no fields.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::{Nothing, PeerRequest};
    use super::*;

    #[test]
    fn a_list_of_values_is_no_object() {
        let peer = |text| serde_json::from_str::<Object<PeerRequest>>(text).map(|it| it.0.url);
        assert_eq!(peer(r#"{"url": "x"}"#).ok().as_deref(), Some("x"));
        for text in [
            r#"["x"]"#,
            "[]",
            "{}",
            r#"{"url": "x", "more": 1}"#,
            "null",
            "\"x\"",
        ] {
            assert!(peer(text).is_err(), "{text}");
        }
        let nothing = |text| serde_json::from_str::<Object<Nothing>>(text).is_ok();
        assert!(nothing("{}"));
        assert!(!nothing("[]") && !nothing("null") && !nothing("{\"x\": 1}"));
    }
}

//! The OpenAPI document, made from what is answered.

use std::collections::BTreeMap;

use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi};

use super::error::REFUSED_WITH;
use super::types::{EventLine, Refusal, UploadLine, UploadRequest};

/// The head of the document; paths and what they take come with the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Overlane local API",
        description = "HTTP with JSON on the Unix socket in a node's home, and on a port of the loopback if \
                       `api.listen` is set. On TCP every request brings `Authorization: Bearer TOKEN`, with the \
                       token that is in `api.token` in the home.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(Refusal, EventLine, UploadRequest, UploadLine)),
    modifiers(&Bearer),
    security(("token" = []))
)]
pub(super) struct ApiDoc;

/// The token of TCP.
struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut Document) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", bearer);
    }
}

/// The document.
pub fn openapi() -> Document {
    let mut document = super::server::routes().into_openapi();
    document.merge(super::server::pages().into_openapi());
    document
}

/// What every path may answer instead.
pub(super) struct Refused;

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let refusal = || {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Refusal")));
            ResponseBuilder::new()
                .description("a refusal, with its stable code")
                .content("application/json", content.build())
                .build()
        };
        let status = REFUSED_WITH.iter().map(|status| status.as_str().to_owned());
        status.map(|status| (status, RefOr::T(refusal()))).collect()
    }
}

//! Answers of the gateway's own.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::body::AnyBody;

/// An answer that says in JSON why there is no other.
pub(super) fn refusal(status: StatusCode, error: &str, message: &str) -> Response<AnyBody> {
    let text = serde_json::json!({ "error": error, "message": message }).to_string();
    let body = Full::new(Bytes::from(text)).map_err(|never| -> io::Error { match never {} }).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

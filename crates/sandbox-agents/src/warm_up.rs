use serde::de::IgnoredAny;

use crate::{Server, ServerError};

/// Has the server make ready in `directory`, a guest folder, what its first session there needs. It does so
/// whatever becomes of its answers, which nobody wants.
pub fn warm_up(server: &Server<'_>, directory: &str) {
    for path in server.profile().warm_up {
        let _: Result<IgnoredAny, ServerError> = server.json(path, Some(directory));
    }
}

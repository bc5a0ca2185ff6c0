use std::collections::BTreeMap;

use sandbox_model::{ByteSize, Digest};
use serde::{Deserialize, Serialize};

/// A content's record, written when the whole of it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub env: Vec<(String, String)>,
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub created: i64,
    pub size: ByteSize,
    /// Lowest first; none where the driver has one file for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Digest>,
}

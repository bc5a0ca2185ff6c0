use std::collections::BTreeMap;

use sandbox_model::{ByteSize, Digest};
use serde::{Deserialize, Serialize};

/// A content's record, written when the whole of it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// As the image's configuration has it, in its order.
    pub env: Vec<(String, String)>,
    /// The image's labels, those of this program among them.
    pub labels: BTreeMap<String, String>,
    /// Seconds since 1970.
    pub created: i64,
    /// What the driver counts as the image's size on the host.
    pub size: ByteSize,
    /// Lowest first; none where the driver has one file for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Digest>,
}

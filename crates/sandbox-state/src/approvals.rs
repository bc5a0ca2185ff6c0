use serde::{Deserialize, Serialize};

/// `approvals.json`: what the user has let one checkout's own files widen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsRecord {
    /// In the order of approval. What the files say no more is forgotten.
    pub approved: Vec<Approval>,
}

/// One entry of such a file, in exactly the text that was approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// For people who look into the file; only the hash counts.
    pub key: String,
    /// 64 hex digits.
    pub sha256: String,
    /// Seconds since 1970.
    pub at: i64,
}

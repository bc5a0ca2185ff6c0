use sandbox_model::ByteSize;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Names of removed sandboxes, those of tasks among them.
    pub sandboxes: Vec<String>,
    /// Names of sandboxes whose saved memory was dropped.
    pub memories: Vec<String>,
    pub volumes: Vec<String>,
    /// Folders of half-made volumes.
    pub leftovers: Vec<String>,
    pub images: Vec<String>,
    /// Ids of images in the engine.
    pub unnamed: Vec<String>,
    /// Bytes on disk that are free now.
    pub freed: ByteSize,
    /// What was in the plan, and was used before its turn came.
    pub spared: Vec<Spared>,
    pub failures: Vec<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spared {
    /// `sandbox NAME`, `saved memory of NAME`, `home volume NAME`, `image REFERENCE`.
    pub what: String,
    pub why: String,
}

/// One thing that could not be removed; everything else was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} could not be removed: {problem}")]
pub struct Failure {
    pub what: String,
    pub problem: String,
}

impl Report {
    pub(super) fn spare(&mut self, what: String, why: impl Into<String>) {
        self.spared.push(Spared { what, why: why.into() });
    }

    pub(super) fn fail(&mut self, what: String, error: &dyn std::error::Error) {
        self.failures.push(Failure { what, problem: crate::error::chain(error) });
    }

    pub(super) const fn free(&mut self, size: ByteSize) {
        self.freed = ByteSize::from_bytes(self.freed.bytes() + size.bytes());
    }
}

use sandbox_model::ByteSize;

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Names of removed sandboxes, those of tasks among them.
    pub sandboxes: Vec<String>,
    /// Names of sandboxes whose saved memory was dropped.
    pub memories: Vec<String>,
    /// Names of removed home volumes.
    pub volumes: Vec<String>,
    /// Folders of half-made volumes.
    pub leftovers: Vec<String>,
    /// References that were removed from the runtime.
    pub images: Vec<String>,
    /// Ids of images in the engine.
    pub unnamed: Vec<String>,
    /// Bytes on disk that are free now.
    pub freed: ByteSize,
    /// What was in the plan, and was used before its turn came.
    pub spared: Vec<Spared>,
    /// What could not be removed; everything else went on.
    pub failures: Vec<Failure>,
}

/// One thing that stays although it was in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spared {
    /// `sandbox NAME`, `saved memory of NAME`, `home volume NAME`, `image REFERENCE`.
    pub what: String,
    /// What has happened to it since, for people.
    pub why: String,
}

/// One thing that could not be removed; everything else was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} could not be removed: {problem}")]
pub struct Failure {
    /// The thing, in the words of [`Spared::what`].
    pub what: String,
    /// The error and what caused it, in one line.
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

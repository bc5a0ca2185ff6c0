use std::time::Duration;

/// How long `msb` may take over a call. What has not ended by then hangs, and is ended with all that it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// A question about what is on disk, or a power-off.
    pub ask: Duration,
    /// A boot, a change of a running machine, the first answer of a command in it.
    pub work: Duration,
    /// One piece of an image; after its last byte `msb` merges the layers, which takes as long as their disk
    /// does.
    pub load: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { ask: Duration::from_mins(1), work: Duration::from_mins(3), load: Duration::from_mins(15) }
    }
}

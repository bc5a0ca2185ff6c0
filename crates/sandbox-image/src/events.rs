/// One instruction of a Dockerfile, as an engine announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Position and count, where the engine counts (within one stage, as its log does).
    pub position: Option<(u32, u32)>,
    /// The instruction's first line: `RUN set -eu; …`.
    pub text: String,
}

/// Receives what a build has to say. Nothing here is called from another thread.
pub trait Events {
    /// A new part of the work starts: `bootstrapping a base image of Debian trixie`.
    fn stage(&mut self, text: &str);

    /// The engine works on this instruction now.
    fn step(&mut self, step: &Step);

    /// One line of a tool's output, without its line end.
    fn log(&mut self, line: &str);

    /// Another process holds a lock that the build needs.
    fn waiting(&mut self, holder: &str);

    /// Asked a few times per second while a tool runs; `true` ends the tool and the build, and lets the
    /// tool clean up. A program that takes Ctrl-C into its own hands says so here; one that just dies
    /// leaves the tool's temporary files behind.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Wants to hear nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Events for Silent {
    fn stage(&mut self, _text: &str) {}

    fn step(&mut self, _step: &Step) {}

    fn log(&mut self, _line: &str) {}

    fn waiting(&mut self, _holder: &str) {}
}

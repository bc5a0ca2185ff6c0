/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    pub const SUCCESS: Self = Self(0);
    /// Our own failures.
    pub const FAILURE: Self = Self(1);
    /// The command line could not be understood.
    pub const USAGE: Self = Self(2);

    /// A command's code as a shell reports it; what does not fit into a byte is 255.
    pub fn from_shell_code(code: i32) -> Self {
        Self(u8::try_from(code).unwrap_or(255))
    }

    pub const fn from_signal(signal: u8) -> Self {
        Self(128_u8.saturating_add(signal))
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

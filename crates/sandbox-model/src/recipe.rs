use crate::AgentName;

/// How one agent gets into an image. The agents' room writes it, the image room builds from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRecipe {
    /// Whose recipe it is: a label of the image says so.
    pub agent: AgentName,
    /// The build argument that carries the version into `install`: `OPENCODE_VERSION`.
    pub version_arg: &'static str,
    /// The version to install; `None` leaves the argument empty, and `install` takes the newest.
    pub version: Option<String>,
    /// A `sh` script (several lines, run with `set -eu` as root), which installs into
    /// `/opt/agents-sandbox` with the program in `/opt/agents-sandbox/bin`. It runs where `node` and
    /// `npm` are on the PATH, and the host's CA, proxies and registries are set in the environment.
    pub install: String,
    /// The program's name on the PATH: `opencode`. An image that has it already keeps its own.
    pub binary: String,
    /// Set in the image for every command.
    pub image_env: Vec<(String, String)>,
    /// The agent runs on node, so an image whose own node is older than 22 is refused.
    pub needs_node: bool,
}

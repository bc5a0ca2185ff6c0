//! Arguments that several commands share.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueEnum};
use sandbox_config::Flags;
use sandbox_lifecycle::Extent;
use sandbox_model::{AgentName, ByteSize, NetworkProfile, PortForward, parse_duration};

use super::values;
use crate::approval::Purpose;

/// The least important message that is still shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    Error,
    #[value(alias = "warn")]
    Warning,
    #[default]
    Info,
    #[value(alias = "debug")]
    Verbose,
}

impl From<sandbox_config::LogLevel> for LogLevel {
    fn from(level: sandbox_config::LogLevel) -> Self {
        match level {
            sandbox_config::LogLevel::Error => Self::Error,
            sandbox_config::LogLevel::Warning => Self::Warning,
            sandbox_config::LogLevel::Info => Self::Info,
            sandbox_config::LogLevel::Verbose => Self::Verbose,
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArgs {
    /// Answer yes to every question
    #[arg(long, short = 'y', global = true, display_order = 900, help_heading = "Everywhere")]
    pub yes: bool,

    /// Print no results and no tables
    #[arg(long, short = 'q', global = true, display_order = 901, help_heading = "Everywhere")]
    pub quiet: bool,

    /// Show messages of this importance and above: error, warning, info (the default) or verbose
    #[arg(
        long,
        short = 'l',
        global = true,
        value_name = "LEVEL",
        hide_possible_values = true,
        display_order = 902,
        help_heading = "Everywhere"
    )]
    pub log_level: Option<LogLevel>,
}

pub fn agent_parser() -> impl TypedValueParser<Value = AgentName> {
    PossibleValuesParser::new(sandbox_agents::names())
        .try_map(|name| sandbox_agents::named(&name).map(|profile| profile.name))
}

pub fn port_parser() -> impl TypedValueParser<Value = PortForward> {
    clap::builder::StringValueParser::new().try_map(|text| text.parse::<PortForward>())
}

fn profile_parser() -> impl TypedValueParser<Value = NetworkProfile> {
    PossibleValuesParser::new(NetworkProfile::ALL.map(NetworkProfile::as_str))
        .try_map(|name| name.parse::<NetworkProfile>())
}

#[derive(Debug, Clone, Default, Args)]
pub struct AgentArg {
    /// The agent whose sandbox is meant [default: opencode, or what the settings say]
    #[arg(long, value_name = "NAME", value_parser = agent_parser())]
    pub agent: Option<AgentName>,
}

/// What the image of a sandbox is made from.
#[derive(Debug, Clone, Default, Args)]
pub struct ImageArgs {
    /// Build the image anew, without the layers of earlier builds
    #[arg(long, short = 'r', help_heading = "Image")]
    pub rebuild: bool,

    /// Keep the agent at this version; `latest` takes the newest again
    #[arg(long, value_name = "VERSION", value_parser = values::agent_version, allow_hyphen_values = true, help_heading = "Image")]
    pub agent_version: Option<String>,

    /// Put a Docker engine into the image
    #[arg(long, help_heading = "Image")]
    pub docker: bool,

    /// The former name of --docker
    #[arg(long, hide = true, help_heading = "Image")]
    pub dind: bool,
}

/// The size of the machine.
// Here and elsewhere a value that begins with a dash is no flag: its parser says what it wants.
#[derive(Debug, Clone, Default, Args)]
pub struct ResourceArgs {
    /// Virtual CPUs; 0 is all the machine has [default: 0]
    #[arg(long, short = 'c', value_name = "COUNT", value_parser = values::processors, allow_hyphen_values = true, help_heading = "Machine")]
    pub cpus: Option<u8>,

    /// Memory, such as 512M or 8G [default: 4G]
    #[arg(long, short = 'm', value_name = "SIZE", allow_hyphen_values = true, help_heading = "Machine")]
    pub memory: Option<ByteSize>,

    /// What the sandbox may write outside home, workspace and /tmp [default: 4G]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Machine")]
    pub disk_size: Option<ByteSize>,

    /// Size of /tmp, which is memory [default: 2G]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Machine")]
    pub tmp_size: Option<ByteSize>,

    /// What the sandbox may add to the checkout [default: 16G]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Machine")]
    pub workspace_quota: Option<ByteSize>,
}

#[derive(Debug, Clone, Default, Args)]
pub struct NetworkArgs {
    /// What the sandbox may reach; replaces profile, lists, provider and resolvers of all files [default: none]
    #[arg(long, value_name = "PROFILE", value_parser = profile_parser(), help_heading = "Network")]
    pub network: Option<NetworkProfile>,

    /// Resolvers to ask, as ADDRESS or ADDRESS:PORT; several with commas, or repeated
    #[arg(long, value_name = "LIST", value_parser = values::resolver, value_delimiter = ',', action = ArgAction::Append, help_heading = "Network")]
    pub dns: Vec<String>,

    /// Let a port of this machine lead to one of the sandbox; loopback unless BIND says otherwise. Repeatable
    #[arg(
        long,
        short = 'p',
        value_name = "[BIND:]HOST:GUEST",
        value_parser = port_parser(),
        action = ArgAction::Append,
        help_heading = "Network"
    )]
    pub publish: Vec<PortForward>,
}

/// Everything `run` and `shell` take to prepare a sandbox.
#[derive(Debug, Clone, Default, Args)]
pub struct PrepareArgs {
    #[command(flatten)]
    pub agent: AgentArg,

    /// Keep the sandbox running for at least this long, such as 2h, whoever leaves
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub keep: Option<Duration>,

    /// Say what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,

    /// Build the image and make the home, but do not make, start or use the machine
    #[arg(long)]
    pub dry_run_vm: bool,

    #[command(flatten)]
    pub image: ImageArgs,

    #[command(flatten)]
    pub resources: ResourceArgs,

    #[command(flatten)]
    pub network: NetworkArgs,

    /// Let programs in the sandbox use the keys of your ssh-agent
    #[arg(long, help_heading = "Network")]
    pub ssh_agent: bool,
}

impl AgentArg {
    /// A command line that means the same sandbox.
    pub fn after(&self, command: &str) -> String {
        self.agent.map_or_else(|| command.into(), |agent| format!("{command} --agent {agent}"))
    }

    /// As the layer above all settings.
    pub fn flags(&self) -> Flags {
        Flags { agent: self.agent.map(|agent| agent.to_string()), ..Flags::default() }
    }
}

impl PrepareArgs {
    /// A dry run only looks at what the project's files would widen; without the machine alone, an image is
    /// built from them.
    pub const fn purpose(&self) -> Purpose {
        if self.dry_run { Purpose::Look } else { Purpose::Use }
    }

    pub const fn rehearses(&self) -> Option<Extent> {
        match (self.dry_run, self.dry_run_vm) {
            (true, _) => Some(Extent::Look),
            (false, true) => Some(Extent::ImageAndHome),
            (false, false) => None,
        }
    }

    /// As the layer above all settings.
    pub fn flags(&self) -> Flags {
        let size = |size: Option<ByteSize>| size.map(|size| size.to_string());
        let typed = |flag: bool| flag.then_some(true);
        Flags {
            cpus: self.resources.cpus.map(|count| count.to_string()),
            memory: size(self.resources.memory),
            disk_size: size(self.resources.disk_size),
            tmp_size: size(self.resources.tmp_size),
            workspace_quota: size(self.resources.workspace_quota),
            network: self.network.network.map(|profile| profile.to_string()),
            dns: self.network.dns.clone(),
            publish: self.network.publish.iter().map(ToString::to_string).collect(),
            docker: typed(self.image.docker),
            ssh_agent: typed(self.ssh_agent),
            dind: typed(self.image.dind),
            ..self.agent.flags()
        }
    }
}

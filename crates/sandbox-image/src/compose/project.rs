use std::collections::BTreeMap;

use parse_dockerfile::{Instruction, Stage, parse};

use super::ComposeError;

/// Stage names that only we may declare, in any case.
pub const RESERVED_STAGES: [&str; 5] = [
    "agents-sandbox-base",
    "agents-sandbox-node",
    "agents-sandbox-agent",
    "agents-sandbox-docker",
    "agents-sandbox-runner",
];

const RESERVED_ARGUMENT_PREFIX: &str = "AGENTS_SANDBOX_";
const MANAGED: &str = "agents-sandbox/runner-base";
const MANAGED_WITH_DOCKER: [&str; 2] = ["agents-sandbox/runner-dind", "agents-sandbox/runner-docker"];

/// What the runner stage builds on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseKind {
    /// Our own base image with our tools.
    Managed,
    /// The image that the project's last stage comes from, with the defaults of build arguments filled in.
    Custom(String),
}

/// A project's Dockerfile, taken apart. All texts are as written, comments included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectDockerfile {
    /// `ARG` instructions before the first `FROM`.
    pub(super) global_args: String,
    /// Every stage but the last; managed bases are already replaced by our stage.
    pub(super) earlier_stages: String,
    /// What the last `FROM` names, as written there: an image or an earlier stage.
    pub(super) last_image: String,
    /// It is an earlier stage.
    pub(super) last_is_stage: bool,
    /// `--platform=…` of the last `FROM`.
    pub(super) last_options: String,
    /// The last stage without its `FROM`.
    pub(super) body: String,
    /// The body changes the shell of `RUN`.
    pub(super) body_sets_shell: bool,
    pub(super) base: BaseKind,
    /// The base asks for Docker inside the sandbox (`agents-sandbox/runner-dind` or `-docker`).
    pub wants_docker: bool,
    /// Some instruction reads files of the build context.
    pub uses_context: bool,
}

impl ProjectDockerfile {
    /// A project without a Dockerfile of its own.
    pub fn none() -> Self {
        Self {
            global_args: String::new(),
            earlier_stages: String::new(),
            last_image: String::new(),
            last_is_stage: false,
            last_options: String::new(),
            body: String::new(),
            body_sets_shell: false,
            base: BaseKind::Managed,
            wants_docker: false,
            uses_context: false,
        }
    }

    /// Takes a Dockerfile's text; one with nothing but comments counts as none.
    pub fn parse(text: &str) -> Result<Self, ComposeError> {
        // Every engine reads CRLF as LF; our own lines end in LF.
        let text = text.replace("\r\n", "\n");
        let text = text.trim_start_matches('\u{feff}');
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::none());
        }
        let parsed = parse(text).map_err(|error| ComposeError::Syntax {
            line: error.line(),
            column: error.column(),
            problem: plain_problem(&error.to_string()),
        })?;
        if let Some(escape) = parsed.parser_directives.escape.as_ref().filter(|e| e.value.value != '\\') {
            return Err(ComposeError::Escape(escape.value.value));
        }
        let stages: Vec<Stage<'_, '_>> = parsed.stages().collect();
        check_names(&stages)?;
        check_arguments(&parsed.instructions)?;

        let starts: Vec<usize> = stages.iter().map(|stage| stage.from.from.span.start).collect();
        let defaults = argument_defaults(parsed.global_args().map(|arg| arg.arguments.value.as_ref()));
        let images: Vec<String> =
            stages.iter().map(|stage| substitute(&stage.from.image.value, &defaults)).collect();
        let mut project = Self::none();
        for arg in parsed.global_args() {
            project.global_args.push_str(text[arg.arg.span.start..arg.arguments.span.end].trim_end());
            project.global_args.push('\n');
        }

        let last = stages.len() - 1;
        let root = root_of(last, &stages, &images);
        let managed = is_managed(&images[root]);
        project.wants_docker = wants_docker(&images[root]);
        for (index, stage) in stages.iter().enumerate().take(last) {
            let slice = &text[starts[index]..starts[index + 1]];
            if alias_of(index, &stages, &images).is_none() && is_managed(&images[index]) {
                if !managed {
                    return Err(ComposeError::MixedBases(images[index].clone()));
                }
                let image = &stage.from.image.span;
                project.earlier_stages.push_str(&text[starts[index]..image.start]);
                project.earlier_stages.push_str(RESERVED_STAGES[0]);
                project.earlier_stages.push_str(&text[image.end..starts[index + 1]]);
            } else {
                project.earlier_stages.push_str(slice);
            }
        }

        let from = stages[last].from;
        project.last_is_stage = alias_of(last, &stages, &images).is_some();
        project.last_image = from.image.value.to_string();
        for option in &from.options {
            project.last_options.push_str(&text[option.span()]);
            project.last_options.push(' ');
        }
        let end = from.as_.as_ref().map_or(from.image.span.end, |(_, name)| name.span.end);
        project.body = text[end..].trim_matches('\n').trim_end().to_string();
        project.body_sets_shell =
            stages[last].instructions.iter().any(|i| matches!(i, Instruction::Shell(_)));
        project.base = if managed { BaseKind::Managed } else { BaseKind::Custom(images[root].clone()) };
        project.uses_context = parsed.instructions.iter().any(reads_context);
        Ok(project)
    }
}

/// The parser appends its position, which our error carries apart.
fn plain_problem(message: &str) -> String {
    message.split(" at line ").next().unwrap_or(message).to_string()
}

fn check_names(stages: &[Stage<'_, '_>]) -> Result<(), ComposeError> {
    let mut seen = Vec::new();
    for (_, name) in stages.iter().filter_map(|stage| stage.from.as_.as_ref()) {
        let lower = name.value.to_lowercase();
        if RESERVED_STAGES.contains(&lower.as_str()) {
            return Err(ComposeError::ReservedStage(name.value.to_string()));
        }
        if seen.contains(&lower) {
            return Err(ComposeError::DuplicateStage(name.value.to_string()));
        }
        seen.push(lower);
    }
    Ok(())
}

fn check_arguments(instructions: &[Instruction<'_>]) -> Result<(), ComposeError> {
    for instruction in instructions {
        let Instruction::Arg(arg) = instruction else { continue };
        for word in arg.arguments.value.split_whitespace() {
            let name = word.split('=').next().unwrap_or(word);
            if name.starts_with(RESERVED_ARGUMENT_PREFIX) {
                return Err(ComposeError::ReservedArgument(name.to_string()));
            }
        }
    }
    Ok(())
}

fn argument_defaults<'a>(arguments: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    arguments
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_string(), value.trim_matches(['"', '\'']).to_string()))
        .collect()
}

/// Fills in `$NAME` and `${NAME}` where the default is known; anything else stays as it is.
fn substitute(image: &str, defaults: &BTreeMap<String, String>) -> String {
    let mut text = image.to_string();
    for (name, value) in defaults {
        text = text.replace(&format!("${{{name}}}"), value);
        if text == format!("${name}") {
            text.clone_from(value);
        }
    }
    text
}

/// The earlier stage that a stage builds on, by name (in any case) or by number.
fn alias_of(index: usize, stages: &[Stage<'_, '_>], images: &[String]) -> Option<usize> {
    let image = images[index].to_lowercase();
    (0..index).rev().find(|&earlier| {
        stages[earlier].from.as_.as_ref().is_some_and(|(_, name)| name.value.to_lowercase() == image)
    })
}

fn root_of(last: usize, stages: &[Stage<'_, '_>], images: &[String]) -> usize {
    let mut root = last;
    while let Some(earlier) = alias_of(root, stages, images) {
        root = earlier;
    }
    root
}

/// The repository of a reference, without tag and digest.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

fn is_managed(image: &str) -> bool {
    repository(image) == MANAGED || wants_docker(image)
}

fn wants_docker(image: &str) -> bool {
    MANAGED_WITH_DOCKER.contains(&repository(image))
}

/// Whether an instruction may read the build context: `COPY` and `ADD` of anything but another stage, and
/// bind mounts of `RUN`.
fn reads_context(instruction: &Instruction<'_>) -> bool {
    match instruction {
        Instruction::Copy(copy) => !copy.options.iter().any(|flag| flag.name.value == "from"),
        Instruction::Add(_) => true,
        Instruction::Onbuild(onbuild) => reads_context(&onbuild.instruction),
        Instruction::Run(run) => run.options.iter().any(|flag| flag.name.value == "mount"),
        _ => false,
    }
}

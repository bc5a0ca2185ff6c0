use sandbox_model::{AgentName, AgentRecipe};

use super::*;
use crate::HostCa;

fn recipe() -> AgentRecipe {
    AgentRecipe {
        agent: AgentName::OPENCODE,
        version_arg: "OPENCODE_VERSION",
        version: Some("1.2.3".into()),
        install: "echo install".into(),
        binary: "opencode".into(),
        image_env: vec![("OPENCODE_DISABLE_AUTOUPDATE".into(), "true".into())],
        needs_node: false,
    }
}

struct Case {
    project: ProjectDockerfile,
    context: ProjectContext,
    base: BaseSetting,
    recipe: AgentRecipe,
    host_ca: HostCa,
    docker: bool,
    client: ClientSettings,
    uid: u32,
}

impl Case {
    fn new(dockerfile: &str) -> Self {
        Self {
            project: ProjectDockerfile::parse(dockerfile).unwrap(),
            context: ProjectContext::default(),
            base: BaseSetting::Auto,
            recipe: recipe(),
            host_ca: HostCa::default(),
            docker: false,
            client: ClientSettings::default(),
            uid: 1001,
        }
    }

    fn compose(&self) -> Result<Composed, ComposeError> {
        compose(&ComposeInput {
            project: &self.project,
            context: &self.context,
            base: &self.base,
            recipe: &self.recipe,
            host_ca: &self.host_ca,
            docker: self.docker,
            client: &self.client,
            uid: self.uid,
            gid: 20,
        })
    }

    fn dockerfile(&self) -> String {
        self.compose().unwrap().dockerfile
    }
}

/// The lines that say how stages hang together, and the project's own ones.
fn outline(dockerfile: &str) -> String {
    let kept = |line: &&str| {
        ["FROM ", "ARG AGENTS_SANDBOX_BASE_IMAGE", "#", "ARG V", "COPY ", "RUN make", "SHELL"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    dockerfile.lines().filter(kept).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_project_without_a_dockerfile() {
    insta::assert_snapshot!(Case::new("# nothing\n\n").dockerfile());
}

#[test]
fn a_managed_base_with_layers_of_the_project() {
    let case = Case::new(
        "ARG V=1\nFROM agents-sandbox/runner-base:2 AS tools\nRUN make tools\n# Two.\nFROM tools\nCOPY --from=tools /x /x\nRUN make \\\n  all\n",
    );
    assert!(!case.project.uses_context);
    insta::assert_snapshot!(outline(&case.dockerfile()), @"
    # Composed by agents-sandbox from .agents-sandbox/Dockerfile and the agent's recipe.
    ARG AGENTS_SANDBOX_BASE_IMAGE=debian:trixie-slim
    ARG V=1
    FROM ${AGENTS_SANDBOX_BASE_IMAGE} AS agents-sandbox-base
    FROM agents-sandbox-base AS tools
    RUN make tools
    # Two.
    FROM tools AS agents-sandbox-node
    FROM agents-sandbox-node AS agents-sandbox-agent
    COPY .agents-sandbox-build/install-agent.sh /tmp/install-agent.sh
    FROM tools AS agents-sandbox-runner
    # The project's own layers.
    COPY --from=tools /x /x
    RUN make \\
    COPY --from=agents-sandbox-agent /opt/agents-sandbox /opt/agents-sandbox
    COPY .agents-sandbox-build/agents-sandbox-path.sh /etc/profile.d/agents-sandbox-path.sh
    ");
}

#[test]
fn a_custom_base_with_an_earlier_stage_and_its_own_shell() {
    let case = Case::new(
        "ARG V=24.04\nFROM golang AS build\nRUN make\nFROM --platform=linux/amd64 ubuntu:${V} AS final\nSHELL [\"/bin/bash\", \"-c\"]\nCOPY setup.sh /setup.sh\n",
    );
    assert!(case.project.uses_context);
    assert_eq!(case.compose().unwrap().base, BaseKind::Custom("ubuntu:24.04".into()));
    insta::assert_snapshot!(outline(&case.dockerfile()), @r#"
    # Composed by agents-sandbox from .agents-sandbox/Dockerfile and the agent's recipe.
    ARG V=24.04
    FROM golang AS build
    RUN make
    FROM --platform=linux/amd64 ubuntu:${V} AS agents-sandbox-base
    FROM agents-sandbox-base AS agents-sandbox-node
    FROM agents-sandbox-node AS agents-sandbox-agent
    COPY .agents-sandbox-build/install-agent.sh /tmp/install-agent.sh
    FROM agents-sandbox-base AS agents-sandbox-runner
    # The project's own layers.
    SHELL ["/bin/bash", "-c"]
    COPY setup.sh /setup.sh
    SHELL ["/bin/sh", "-c"]
    COPY --from=agents-sandbox-agent /opt/agents-sandbox /opt/agents-sandbox
    COPY .agents-sandbox-build/agents-sandbox-path.sh /etc/profile.d/agents-sandbox-path.sh
    "#);
}

#[test]
fn which_bases_are_managed() {
    for (dockerfile, managed, docker) in [
        ("FROM agents-sandbox/runner-base\n", true, false),
        ("FROM agents-sandbox/runner-base@sha256:00\n", true, false),
        ("FROM agents-sandbox/runner-dind:latest\n", true, true),
        ("ARG B=agents-sandbox/runner-docker\nFROM ${B}\n", true, true),
        ("FROM agents-sandbox/runner-base AS a\nFROM A as b\nFROM b\n", true, false),
        ("FROM host:5000/agents-sandbox/runner-base\n", false, false),
        ("FROM agents-sandbox/runner-base-x\n", false, false),
        ("FROM ubuntu\n", false, false),
    ] {
        let project = ProjectDockerfile::parse(dockerfile).unwrap();
        assert_eq!(project.base == BaseKind::Managed, managed, "{dockerfile}");
        assert_eq!(project.wants_docker, docker, "{dockerfile}");
    }
}

#[test]
fn which_instructions_read_the_projects_files() {
    for (line, reads) in [
        ("COPY a b", true),
        ("ADD a.tar /", true),
        ("COPY --from=x a b", false),
        ("RUN --mount=type=bind,target=/x ls", true),
        ("ONBUILD COPY a b", true),
        ("RUN echo COPY a b", false),
    ] {
        let project = ProjectDockerfile::parse(&format!("FROM x\n{line}\n")).unwrap();
        assert_eq!(project.uses_context, reads, "{line}");
    }
}

#[test]
fn dockerfiles_that_cannot_be_layered_in_are_refused() {
    for (dockerfile, message) in [
        ("FROM x AS Agents-Sandbox-Runner\n", "declares the stage `Agents-Sandbox-Runner`"),
        ("FROM x AS agents-sandbox-docker\nFROM y\n", "reserved for agents-sandbox"),
        ("FROM x AS a\nFROM y AS A\nFROM a\n", "declares the stage `A` twice"),
        ("# escape=`\nFROM x\n", "escape character to ``"),
        ("FROM x\nARG AGENTS_SANDBOX_BASE=y\n", "build argument `AGENTS_SANDBOX_BASE`"),
        ("FROM agents-sandbox/runner-base AS a\nFROM ubuntu\n", "an earlier stage"),
        ("RUN make\n", "line 1, column 1: expected FROM"),
        ("FROM x\nNONSENSE y\n", "line 2"),
        ("ARG X=1\n", "Dockerfile"),
    ] {
        let error = ProjectDockerfile::parse(dockerfile).unwrap_err().to_string();
        assert!(error.contains(message), "{dockerfile}: {error}");
    }
}

#[test]
fn a_recipe_cannot_smuggle_in_instructions() {
    type Change = fn(&mut AgentRecipe);
    let changes: [(Change, &str); 5] = [
        (|r| r.version = Some("1; rm -rf /".into()), "is not a version"),
        (|r| r.version = Some(String::new()), "is not a version"),
        (|r| r.binary = "a b".into(), "is not a program's name"),
        (|r| r.image_env = vec![("A B".into(), "x".into())], "is not a variable's name"),
        (|r| r.image_env = vec![("A".into(), "x\nUSER root".into())], "line break"),
    ];
    for (change, message) in changes {
        let mut case = Case::new("");
        change(&mut case.recipe);
        let error = case.compose().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let mut case = Case::new("");
    case.recipe.image_env = vec![("A".into(), "a \"b\" $PATH \\".into())];
    assert!(case.dockerfile().contains("ENV A=\"a \\\"b\\\" \\$PATH \\\\\"\n"));
}

#[test]
fn root_is_not_dev() {
    let mut case = Case::new("");
    case.uid = 0;
    assert!(matches!(case.compose(), Err(ComposeError::User { uid: 0, gid: 20 })));
}

#[test]
fn the_content_id_covers_the_content_and_not_the_user() {
    let id = |change: fn(&mut Case)| {
        let mut case = Case::new("FROM x\nCOPY . /\n");
        change(&mut case);
        case.compose().unwrap().dockerfile_id
    };
    let entry = || crate::ContextEntry { path: "a".into(), kind: crate::context::EntryKind::Dir };
    let base = id(|_| {});
    assert_eq!(base.len(), 64);
    assert_eq!(base, id(|case| case.uid = 5000));
    assert_eq!(base, id(|case| case.client.pip_timeout = Some("9".into())));
    assert_ne!(base, id(|case| case.recipe.version = Some("1.2.4".into())));
    assert_ne!(base, id(|case| case.recipe.version = None));
    assert_ne!(base, id(|case| case.recipe.install = "echo other".into()));
    assert_ne!(base, id(|case| case.project = ProjectDockerfile::parse("FROM x\n").unwrap()));
    let mut with_file = Case::new("FROM x\nCOPY . /\n");
    with_file.context.entries.push(entry());
    assert_ne!(base, with_file.compose().unwrap().dockerfile_id);
}

#[test]
fn build_arguments_carry_the_user_the_version_and_the_clients_settings() {
    let mut case = Case::new("");
    case.client.npm_registry = Some("http://localhost:4873".into());
    let composed = case.compose().unwrap();
    let mut args = composed.build_args.clone();
    args.retain(|(name, _)| name != "AGENTS_SANDBOX_DOCKERFILE_ID");
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!(
        args,
        [
            pair("USER_UID", "1001"),
            pair("USER_GID", "20"),
            pair("OPENCODE_VERSION", "1.2.3"),
            pair("NPM_CONFIG_REGISTRY", "http://localhost:4873"),
        ]
    );
    assert!(!composed.dockerfile.contains("localhost:4873"));
}

/// The script runs in a real shell: sourced twice after a reset, it changes nothing the second time.
#[test]
fn the_profile_script_restores_the_path_once_and_in_order() {
    let files = stages::files(&ComposeInput {
        project: &ProjectDockerfile::none(),
        context: &ProjectContext::default(),
        base: &BaseSetting::Auto,
        recipe: &recipe(),
        host_ca: &HostCa::default(),
        docker: false,
        client: &ClientSettings::default(),
        uid: 1,
        gid: 1,
    });
    let script = String::from_utf8(files[0].content.clone()).unwrap();
    let path_after = |image_path: Option<&str>| {
        let mut command = std::process::Command::new("sh");
        command.args(["-euc", &format!("PATH=/usr/bin:/bin\n{script}\n{script}\necho \"$PATH\"")]);
        command.env_remove("AGENTS_SANDBOX_IMAGE_PATH");
        if let Some(path) = image_path {
            command.env("AGENTS_SANDBOX_IMAGE_PATH", path);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_string()
    };
    assert_eq!(
        path_after(Some("/home/dev/.local/bin:/bin::/opt/a b:/opt/x")),
        "/usr/bin:/bin:/home/dev/.local/bin:/opt/a b:/opt/x"
    );
    assert_eq!(path_after(None), "/usr/bin:/bin");
}

#[test]
fn docker_joins_where_the_settings_or_the_base_ask_for_it() {
    let mut case =
        Case::new("FROM agents-sandbox/runner-docker\nRUN make\n# agents-sandbox:docker\nRUN make all\n");
    let asked_by_base = case.dockerfile();
    insta::assert_snapshot!(outline(&asked_by_base));
    case.docker = true;
    assert_eq!(case.dockerfile(), asked_by_base);
    let mut case = Case::new("FROM ubuntu\nRUN make\n");
    let (without, id) = (case.dockerfile(), case.compose().unwrap().dockerfile_id);
    case.docker = true;
    let with = case.compose().unwrap();
    assert!(!without.contains("install-docker") && with.dockerfile.contains("install-docker"));
    assert_ne!(with.dockerfile_id, id);
    assert!(with.files.iter().any(|file| file.path.ends_with("/install-docker.sh")));
}

//! Command lines of `msb` 0.7.11. Pure.

use std::path::Path;
use std::time::Duration;

use sandbox_model::{ByteSize, Digest, GUEST_HOME, GUEST_WORKSPACE, Resources, SandboxName, SandboxSpec};
use sandbox_runtime::RuntimeError;

/// Where a sandbox sees the folder of guest programs.
pub const GUEST_PROGRAMS: &str = "/run/agents-sandbox";

/// Where guests and their gateways get their addresses: networks that nobody else uses (half of that of RFC 2544, whose
/// other half has addresses that stand for names, and an own one of RFC 4193), so that a rule about them is a rule about the
/// host behind the gateways.
pub const ADDRESS_POOLS: [&str; 2] = ["198.18.0.0/16", "fd42:6d73:62::/48"];

/// Every content in the private home is tagged in this repository.
pub const CONTENT_REPOSITORY: &str = "agents-sandbox/content";

/// What a machine may grow to while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    pub cpus: u32,
    pub memory: ByteSize,
}

/// The reference under which `msb` keeps a content. Ours may move; this one never does.
pub fn content_reference(digest: &Digest) -> String {
    format!("{CONTENT_REPOSITORY}:{}", digest.hex())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_string()).collect()
}

/// Sizes in whole MiB, rounded up: `msb` takes no finer ones.
fn mib(size: ByteSize) -> String {
    format!("{}M", size.bytes().div_ceil(1 << 20))
}

/// Whole seconds, at least one.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// The command line separates source, target and options of a mount by colons and commas.
fn mountable(path: &Path) -> Result<&str, RuntimeError> {
    match path.to_str() {
        Some(text) if !text.contains([':', ',']) => Ok(text),
        Some(_) => Err(RuntimeError::Unsupported("microsandbox cannot mount a path with a colon or a comma")),
        None => Err(RuntimeError::Unsupported("microsandbox cannot mount a path that is no UTF-8")),
    }
}

/// Boots a sandbox that `msb` does not know, or knows otherwise.
///
/// In the workspace the guest's owners are `msb`'s own notes (extended attributes; without them where the
/// file system has none), but its modes are the host's too: a script made in the guest is a script outside.
///
/// `way_out` is what leads to the process that serves what the rules let out.
///
/// The environment is not in it: `msb` would
/// keep it readable in its database, and every command gets it anyway.
pub fn create(
    spec: &SandboxSpec,
    root_disk: &Path,
    guest_programs: &Path,
    rules: Option<&[String]>,
    way_out: &[String],
    ceiling: Ceiling,
) -> Result<Vec<String>, RuntimeError> {
    let Resources { cpus, memory } = spec.resources;
    let workspace = &spec.workspace;
    let mut line = words(&["create", "-q", "--replace", "--pull", "never", "--name", spec.name.as_str()]);
    let mut add = |option: &str, value: String| line.extend([option.to_string(), value]);
    add("--cpus", cpus.to_string());
    add("--max-cpus", ceiling.cpus.max(cpus).to_string());
    add("--memory", mib(memory));
    add("--max-memory", mib(ceiling.memory.max(memory)));
    add("--root-disk", format!("{}:format=raw,fstype=ext4", mountable(root_disk)?));
    add("--tmpfs", format!("/tmp:{}", mib(spec.tmp)));
    add(
        "--mount-dir",
        format!(
            "{}:{GUEST_WORKSPACE}:quota={},uid={},gid={},stat-virt=relaxed,host-perms=mirror",
            mountable(&workspace.source)?,
            mib(workspace.quota),
            workspace.guest_uid,
            workspace.guest_gid
        ),
    );
    add("--mount-dir", format!("{}:{GUEST_PROGRAMS}:ro", mountable(guest_programs)?));
    add("--mount-disk", format!("{}:{GUEST_HOME}:format=raw,fstype=ext4", mountable(&spec.home.path)?));
    for mount in &spec.mounts {
        // `--mount-file` shows a hard link to the file, or without a word a copy where that cannot be: what either
        // side writes may not be the other's.
        if mount.source.is_file() {
            return Err(RuntimeError::Unsupported("microsandbox mounts no single files, only folders"));
        }
        let (source, target) = (mountable(&mount.source)?, mountable(Path::new(&mount.target))?);
        let options = if mount.readonly {
            "ro".to_string()
        } else {
            let (quota, uid, gid) = (mib(workspace.quota), workspace.guest_uid, workspace.guest_gid);
            format!("quota={quota},uid={uid},gid={gid},stat-virt=relaxed,host-perms=mirror")
        };
        add("--mount-dir", format!("{source}:{target}:{options}"));
    }
    add("--idle-timeout", format!("{}s", seconds(spec.idle_timeout).max(1)));
    for (key, value) in &spec.labels {
        add("--label", format!("{key}={value}"));
    }
    match rules {
        None => line.push("--no-net".into()),
        Some(rules) => {
            line.extend(words(&["--net-default-egress", "deny", "--net-default-ingress", "allow"]));
            // Otherwise no TLS at all passes to a host that is allowed by its name.
            line.push("--net-strict=false".into());
            line.extend(words(&["--net-ipv4-pool", ADDRESS_POOLS[0], "--net-ipv6-pool", ADDRESS_POOLS[1]]));
            for rule in rules {
                line.extend(["--net-rule".to_string(), rule.clone()]);
            }
            line.extend_from_slice(way_out);
        }
    }
    line.push(content_reference(&spec.image_digest));
    Ok(line)
}

/// The name of the sandbox that shows whether any boots.
pub const TRIAL: &str = "trial";

/// Boots the smallest sandbox there is.
pub fn trial(digest: &Digest) -> Vec<String> {
    let image = content_reference(digest);
    words(&[
        "create",
        "-q",
        "--replace",
        "--pull",
        "never",
        "--name",
        TRIAL,
        "--cpus",
        "1",
        "--memory",
        "256M",
        "--no-net",
        &image,
    ])
}

/// Ends the sandbox of [`trial`] by force.
pub fn end_trial() -> Vec<String> {
    words(&["stop", "-q", "--force", TRIAL])
}

/// Not quietly: `start`, `remove` and `touch` would then say nothing of what went wrong either.
pub fn start(name: &SandboxName) -> Vec<String> {
    words(&["start", name.as_str()])
}

/// Fails when the guest has not ended after `grace`, and leaves it running.
pub fn stop(name: &SandboxName, grace: Duration) -> Vec<String> {
    words(&["stop", "-q", "--timeout", &seconds(grace).max(1).to_string(), name.as_str()])
}

/// Takes the power at once.
pub fn power_off(name: &SandboxName) -> Vec<String> {
    words(&["stop", "-q", "--force", name.as_str()])
}

/// Takes away a sandbox at rest, with all that `msb` has of it.
pub fn remove(name: &str) -> Vec<String> {
    words(&["remove", name])
}

/// What a running machine shall have from now on; memory in whole MiB.
pub fn modify(name: &SandboxName, resources: Resources) -> Vec<String> {
    let (cpus, memory) = (resources.cpus.to_string(), mib(resources.memory));
    words(&["modify", "--format", "json", "--cpus", &cpus, "--memory", &memory, name.as_str()])
}

/// Tells `msb` that somebody uses the sandbox.
pub fn touch(name: &SandboxName) -> Vec<String> {
    words(&["touch", name.as_str()])
}

/// Everything that `msb` knows, as [`crate::answers::Row`]s.
pub fn list() -> Vec<String> {
    words(&["list", "--format", "json"])
}

/// The guest program on the other end of a link. `id` names its folder.
pub fn link(name: &SandboxName, id: &str) -> Vec<String> {
    guest_program(name, id, "stdio")
}

fn guest_program(name: &SandboxName, id: &str, mode: &str) -> Vec<String> {
    let program = format!("{GUEST_PROGRAMS}/{id}/sandbox-guest");
    let mut line =
        words(&["exec", "-q", "--stream", "--user", "root", "--workdir", "/", name.as_str(), "--"]);
    line.extend([program, mode.to_string()]);
    line
}

/// Has the guest trust the certificates on standard input, where the guest program is the one of that `id`.
pub fn trust(name: &SandboxName, id: &str) -> Vec<String> {
    guest_program(name, id, "trust")
}

/// Reads the archive from standard input.
pub fn load(digest: &Digest) -> Vec<String> {
    words(&["load", "-q", "--tag", &content_reference(digest)])
}

/// What `msb` knows of one content, as [`crate::answers::Image`].
pub fn inspect_image(digest: &Digest) -> Vec<String> {
    words(&["image", "inspect", "--format", "json", &content_reference(digest)])
}

/// Every reference, as [`crate::answers::ImageRow`]s.
pub fn list_images() -> Vec<String> {
    words(&["image", "list", "--format", "json"])
}

/// `reference` is as `msb` lists it.
pub fn remove_image(reference: &str) -> Vec<String> {
    words(&["image", "remove", "-q", reference])
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use sandbox_model::{HomeDisk, NetworkPolicy, SecretSpec, WorkspaceMount};

    use super::*;

    pub fn spec() -> SandboxSpec {
        SandboxSpec {
            name: "shop-4chyvv5c1qh507-opencode".parse().unwrap(),
            image: "agents-sandbox/runner-shop:opencode-latest".parse().unwrap(),
            image_digest: "ab".repeat(32).parse().unwrap(),
            resources: Resources { cpus: 2, memory: ByteSize::gib(4) },
            root_disk: ByteSize::gib(8),
            tmp: ByteSize::from_bytes((64 << 20) + 1),
            home: HomeDisk { path: "/data/volumes/home one.ext4".into() },
            workspace: WorkspaceMount {
                source: "/src/shop".into(),
                quota: ByteSize::gib(2),
                host_uid: 501,
                host_gid: 20,
                guest_uid: 1000,
                guest_gid: 1001,
            },
            env: BTreeMap::from([("TOKEN".into(), "secret".into())]),
            network: NetworkPolicy { dns_servers: vec!["192.0.2.1:53".into()], ..NetworkPolicy::default() },
            ssh_agent: false,
            labels: BTreeMap::from([("org.agents-sandbox.project".into(), "shop".into())]),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_millis(90_500),
            sleep: false,
        }
    }

    fn line(spec: &SandboxSpec, rules: Option<&[String]>) -> Result<String, RuntimeError> {
        let ceiling = Ceiling { cpus: 8, memory: ByteSize::gib(2) };
        let words = create(spec, Path::new("/d/root.img"), Path::new("/d/guest"), rules, &[], ceiling)?;
        Ok(words.join("\n"))
    }

    #[test]
    fn a_sandbox_without_network() {
        insta::assert_snapshot!(line(&spec(), None).unwrap());
    }

    #[test]
    fn a_sandbox_with_rules() {
        let rules = ["deny@[2002::/16]".to_string(), "allow@domain=example.com:any:443".to_string()];
        insta::assert_snapshot!(line(&spec(), Some(&rules)).unwrap());
    }

    pub fn secret() -> SecretSpec {
        SecretSpec {
            name: "TOKEN".into(),
            hosts: vec!["api.example.com:8443".parse().unwrap(), "*.example.org".parse().unwrap()],
            headers: vec!["authorization".into(), "x-api-key".into()],
            query: true,
            body: false,
            fingerprint: "f".into(),
        }
    }

    #[test]
    fn whatever_leaves_goes_where_it_is_told() {
        let mut spec = spec();
        spec.secrets = vec![secret()];
        let way = ["--proxy", "socks5://127.0.0.1:4000"].map(String::from);
        let ceiling = Ceiling { cpus: 1, memory: ByteSize::gib(2) };
        let made = |rules: Option<&[String]>| {
            let (disk, programs) = (Path::new("/d/root.img"), Path::new("/d/guest"));
            create(&spec, disk, programs, rules, &way, ceiling).unwrap().join(" ")
        };
        assert!(made(Some(&[])).contains(" --proxy socks5://127.0.0.1:4000 "));
        assert!(!made(None).contains("--proxy"), "nothing leaves");
        // Secrets are not its business.
        assert!(!made(Some(&[])).contains("TOKEN") && !made(Some(&[])).contains("--tls-intercept"));
    }

    #[test]
    fn the_environment_stays_out_of_the_database() {
        assert!(!line(&spec(), None).unwrap().contains("secret"));
    }

    #[test]
    fn ports_are_no_business_of_its() {
        let mut spec = spec();
        let without = line(&spec, None).unwrap();
        assert!(without.contains("--no-net"));
        spec.ports = vec!["8080:80".parse().unwrap()];
        assert_eq!(line(&spec, None).unwrap(), without);
    }

    #[test]
    fn a_single_file_is_refused_and_its_folder_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mount = |source: &Path| {
            let mut spec = spec();
            let source = source.into();
            spec.mounts = vec![sandbox_model::ExtraMount { target: "/one".into(), source, readonly: true }];
            line(&spec, None)
        };
        assert!(
            matches!(mount(&file), Err(RuntimeError::Unsupported(why)) if why.contains("no single files"))
        );
        let words = format!("--mount-dir\n{}:/one:ro\n", dir.path().display());
        assert!(mount(dir.path()).unwrap().contains(&words));
    }

    #[test]
    fn a_path_that_reads_as_options_is_refused() {
        for path in ["/src/a:b", "/src/a,ro"] {
            let mut spec = spec();
            spec.workspace.source = path.into();
            assert!(matches!(line(&spec, None), Err(RuntimeError::Unsupported(_))), "{path}");
        }
    }

    #[test]
    fn the_other_commands() {
        let name = spec().name;
        let digest = spec().image_digest;
        let lines = [
            start(&name),
            stop(&name, Duration::from_millis(1_500)),
            stop(&name, Duration::ZERO),
            power_off(&name),
            remove(name.as_str()),
            modify(&name, spec().resources),
            touch(&name),
            list(),
            link(&name, "0123"),
            trust(&name, "0123"),
            load(&digest),
            inspect_image(&digest),
            list_images(),
            remove_image("contract:latest"),
            trial(&digest),
            end_trial(),
        ];
        insta::assert_snapshot!(lines.map(|line| line.join(" ")).join("\n"));
    }
}

//! From a request to what a runtime is told. Pure but for the owner of the checkout, which is handed in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use sandbox_agents::profile;
use sandbox_model::{ByteSize, Digest, HomeDisk, NetworkProfile, SandboxSpec, WorkspaceMount, labels};

use crate::{Result, UpRequest};

/// What the guest may write outside home, workspace and `/tmp` where no setting says more.
const ROOT_DISK: ByteSize = ByteSize::gib(4);

/// The keeper stops an idle sandbox. Should there be no keeper, the runtime does it this much later.
const NET_BELOW_THE_KEEPER: Duration = Duration::from_mins(5);

/// `digest` is the content of the request's image, `home` the volume's file. Fails on an agent that this
/// program does not know.
pub fn spec(
    request: &UpRequest,
    digest: Digest,
    home: PathBuf,
    workspace: WorkspaceMount,
) -> Result<SandboxSpec> {
    let settings = &request.settings;
    let build = request.build_request();
    Ok(SandboxSpec {
        name: request.target().name(),
        image: build.reference(),
        image_digest: digest,
        resources: settings.resources,
        root_disk: settings.disk_size.unwrap_or(ROOT_DISK),
        tmp: settings.tmp_size,
        home: HomeDisk { path: home },
        workspace,
        env: environment(request)?,
        network: settings.network.clone(),
        mounts: settings.mounts.clone(),
        ports: settings.ports.clone(),
        secrets: settings.secrets.clone(),
        ssh_agent: settings.ssh_agent.is_some(),
        labels: labels(request),
        idle_timeout: settings.auto_stop_timeout.saturating_add(NET_BELOW_THE_KEEPER),
        sleep: settings.sleep,
    })
}

/// The settings' own variables win over the agent's.
fn environment(request: &UpRequest) -> Result<BTreeMap<String, String>> {
    let offline = request.settings.network.profile != NetworkProfile::Public;
    let mut env: BTreeMap<String, String> =
        profile(request.agent)?.environment(offline, false).into_iter().collect();
    env.extend(request.settings.env.clone());
    Ok(env)
}

fn labels(request: &UpRequest) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (labels::MANAGED.into(), "true".into()),
        (labels::CHECKOUT.into(), request.project.checkout.to_string()),
        (labels::AGENT.into(), request.agent.to_string()),
        (labels::IMAGE.into(), request.build_request().reference().to_string()),
    ]);
    if let Some(repo) = &request.project.repo {
        labels.insert(labels::PROJECT.into(), repo.to_string());
    }
    labels
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use sandbox_model::{AgentName, CheckoutSlug, NetworkPolicy, Resources, SecretValues};

    use super::*;
    use crate::{ImageSettings, Project, ProvisionSettings, SandboxSettings};

    pub fn request() -> UpRequest {
        UpRequest {
            project: Project {
                repository: None,
                checkout: CheckoutSlug::new("myproject", Path::new("/home/u/myproject/.git")),
                repo: None,
                root: "/home/u/myproject".into(),
                subdir: PathBuf::new(),
                config_dir: "/home/u/myproject/.agents-sandbox".into(),
            },
            agent: AgentName::OPENCODE,
            settings: SandboxSettings {
                resources: Resources { cpus: 2, memory: ByteSize::gib(4) },
                disk_size: None,
                tmp_size: ByteSize::gib(2),
                workspace_quota: ByteSize::gib(16),
                network: NetworkPolicy::default(),
                mounts: Vec::new(),
                ports: Vec::new(),
                secrets: Vec::new(),
                ssh_agent: None,
                env: BTreeMap::from([("MINE".into(), "1".into())]),
                sleep: true,
                auto_stop_timeout: Duration::from_secs(10),
                auto_stop_on_active_sessions: false,
                auto_stop_max_session_retries: 10,
            },
            secret_values: SecretValues::new(),
            proxies: None,
            provision: ProvisionSettings::default(),
            image: ImageSettings::default(),
            rebuild: false,
            agent_version: None,
            keep: None,
            verb: "run",
        }
    }

    pub fn example() -> SandboxSpec {
        let workspace = WorkspaceMount {
            source: "/home/u/myproject".into(),
            quota: ByteSize::gib(16),
            host_uid: 1000,
            host_gid: 1000,
            guest_uid: 1000,
            guest_gid: 1000,
        };
        spec(&request(), "a".repeat(64).parse().unwrap(), "/volumes/h.ext4".into(), workspace).unwrap()
    }

    #[test]
    fn names_and_labels_are_the_pages() {
        let spec = example();
        assert_eq!(spec.name.as_str(), "myproject-4chyvv5c1qh507-opencode");
        assert_eq!(spec.image.as_str(), "agents-sandbox/runner-myproject-4chyvv5c1qh507:opencode-latest");
        assert_eq!(spec.labels["org.agents-sandbox.checkout"], "myproject-4chyvv5c1qh507");
        assert_eq!(spec.labels["org.agents-sandbox.agent"], "opencode");
    }

    #[test]
    fn an_agent_that_cannot_reach_the_public_network_does_not_try_to_download() {
        assert_eq!(example().env["OPENCODE_DISABLE_MODELS_FETCH"], "1");
        assert_eq!(example().env["MINE"], "1");
        let mut public = request();
        public.settings.network.profile = NetworkProfile::Public;
        assert_eq!(environment(&public).unwrap().into_keys().collect::<Vec<_>>(), ["MINE"]);
    }
}

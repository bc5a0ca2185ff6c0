//! An agent's login by a placeholder: its provider, behind TLS and a name, wants a key that the sandbox never has.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::provider::Provider;
use crate::proxies::Proxy;
use crate::world::World;
use crate::{PATIENCE, outside};

const HOST: &str = "api.example.com";

/// How an agent says its key: the header, and what stands before the key there.
pub type Header = (&'static str, &'static str);
pub const BEARER: Header = ("authorization", "Bearer ");
pub const API_KEY: Header = ("x-api-key", "");

/// A provider that answers those who have its key, and a user whose secret that is.
pub struct Login {
    pub provider: Provider,
    variable: &'static str,
    port: u16,
    key: String,
    /// Knows the provider's name, which nobody else does.
    proxy: Proxy,
    /// Of the user.
    settings: PathBuf,
}

impl Login {
    /// The sandbox of `world` gets a placeholder of the key in `variable`, and may reach the provider alone.
    pub fn new(world: &mut World, variable: &'static str) -> Self {
        let key = format!("sk-{:016x}{:016x}", random(), random());
        let provider = Provider::with_key(&key);
        let outside = outside::World::new();
        let port = behind_tls(provider.port, outside.server(&[HOST]));
        let front = SocketAddr::from(([127, 0, 0, 1], port));
        let proxy = Proxy::http([(format!("{HOST}:{port}"), front)].into(), None);

        let user = world.beside("user");
        let put = |path: &str, text: &str| {
            let path = user.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("key", &format!("{key}\n"));
        put("roots/outside.pem", &outside.root_pem);
        let secret = format!("{variable}:\n  from-file: {}/key\n  host: {HOST}:{port}\n", user.display());
        put("config/agents-sandbox/env.secret.yaml", &secret);
        // What `SSL_CERT_FILE` names would become a part of the image.
        world.environment = [("SSL_CERT_DIR", "roots"), ("XDG_CONFIG_HOME", "config")]
            .map(|(name, place)| (name, user.join(place)))
            .into();
        world.write(
            ".agents-sandbox/config.yaml",
            &format!("memory: 2G\nnetwork:\n  provider: []\n  egress-allow: [host, '{HOST}:{port}']\n"),
        );
        let settings = user.join("config/agents-sandbox/config.yaml");
        Self { provider, variable, port, key, proxy, settings }
    }

    /// From now on sandboxes leave through a company's proxy, by which the provider is reached. Not while images are
    /// built: it leads nowhere else.
    pub fn lead_there(&self) {
        fs::write(&self.settings, format!("network:\n  proxy: http://127.0.0.1:{}\n", self.proxy.port))
            .unwrap();
    }

    pub fn url(&self) -> String {
        format!("https://{HOST}:{}", self.port)
    }

    /// While the agent runs that has just worked: the provider was told the key, and the guest has a placeholder.
    pub fn has_worked(&self, world: &World, agent: &str, (header, before): Header) {
        let told = self.provider.keys();
        let wanted = format!("{before}{}", self.key);
        assert!(!told.is_empty());
        for one in told {
            assert_eq!(one[header], wanted, "{agent}");
        }
        let placeholder = format!("$MSB_{}", self.variable);
        let answers = [&placeholder, &self.key].map(|key| self.provider.status(key));
        assert_eq!(answers, [401, 200], "the provider looks at the key");

        // In two halves and without variables, so that the search does not find itself.
        let search = |text: &str| {
            let (first, second) = text.split_at(text.len() / 2);
            let script =
                "grep -rsalF -- \"$1$2\" /proc/[0-9]*/environ /home /etc /run /tmp /var /workspace; true";
            let exec = ["exec", "--root", "--agent", agent, "--", "env", "-i", "bash", "-c", script, "bash"];
            world.succeeds(&[&exec[..], &[first, second]].concat(), PATIENCE)
        };
        let found = search(&placeholder);
        assert!(found.contains("/environ\n"), "the agent has the placeholder: {found:?}");
        assert_eq!(search(&self.key), "", "nobody has the key");
    }
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// The port of a server of TLS in front of what listens at `port`; both are of this machine's loopback.
fn behind_tls(port: u16, config: ServerConfig) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let front = listener.local_addr().unwrap().port();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(pass_on(acceptor.clone(), socket, port));
            }
        });
    });
    front
}

async fn pass_on(acceptor: TlsAcceptor, socket: TcpStream, port: u16) -> std::io::Result<()> {
    let mut outside = acceptor.accept(socket).await?;
    let mut inside = TcpStream::connect(("127.0.0.1", port)).await?;
    tokio::io::copy_bidirectional(&mut outside, &mut inside).await?;
    Ok(())
}

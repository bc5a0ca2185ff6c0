//! One connection to a destination, through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sandbox_model::{Proxies, ProxyScheme, ProxyUrl, SecretValue};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_socks::tcp::Socks5Stream;

use super::http;

/// A proxy takes a connection in this time, and answers in that one: it may have to wait for the destination.
const TAKES: Duration = Duration::from_secs(5);
const ANSWERS: Duration = Duration::from_secs(20);

/// What a connection becomes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What the proxy is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub name: Option<&'a str>,
    /// `None` where a placeholder stands for the name.
    pub address: Option<SocketAddr>,
    pub port: u16,
}

/// Why there is no connection, as the end of a sentence about the proxy.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("cannot be reached: {0}")]
    Unreachable(#[source] io::Error),
    #[error("does not answer")]
    Silent,
    #[error("wants a user and a password")]
    WantsPassword,
    #[error("refuses the user or the password")]
    WrongPassword,
    #[error("refuses this destination (403)")]
    Refuses,
    #[error("answered {0}")]
    Status(u16),
    #[error("answers like no HTTP proxy")]
    NotHttp,
    #[error("ended the connection: {0}")]
    Broken(#[source] io::Error),
    #[error("does not prove who it is: {0}")]
    Tls(#[source] io::Error),
    #[error("said: {0}")]
    Socks(#[source] tokio_socks::Error),
    #[error("cannot be asked for nothing")]
    Nothing,
}

impl DialError {
    pub(super) fn status(code: u16, proxy: &ProxyUrl) -> Self {
        match code {
            407 if proxy.password.is_some() => Self::WrongPassword,
            407 => Self::WantsPassword,
            403 => Self::Refuses,
            other => Self::Status(other),
        }
    }
}

impl Wanted<'_> {
    /// `HOST:PORT`, by name where there is one.
    pub fn authority(&self) -> String {
        match (self.name, self.address) {
            (Some(name), _) => format!("{name}:{}", self.port),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// Connects to proxies.
#[derive(Clone)]
pub(super) struct Dialer {
    /// Whom this host trusts, where a proxy is inside of TLS.
    tls: Option<TlsConnector>,
}

impl Dialer {
    pub fn new(proxies: Option<&Proxies>) -> Self {
        let each = proxies.map(Proxies::each).unwrap_or_default();
        let secure = each.iter().any(|proxy| proxy.scheme == ProxyScheme::Https);
        let tls = secure.then(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
            TlsConnector::from(Arc::new(config))
        });
        Self { tls }
    }

    /// A stream to the proxy itself.
    pub async fn reach(&self, proxy: &ProxyUrl) -> Result<Box<dyn Stream>, DialError> {
        let socket = TcpStream::connect((proxy.host.as_str(), proxy.port));
        let socket = timeout(TAKES, socket).await.map_err(|_| DialError::Silent)?;
        let socket = socket.map_err(DialError::Unreachable)?;
        let _ = socket.set_nodelay(true);
        let Some(tls) = self.tls.as_ref().filter(|_| proxy.scheme == ProxyScheme::Https) else {
            return Ok(Box::new(socket));
        };
        let name = ServerName::try_from(proxy.host.clone());
        let name = name.map_err(|error| DialError::Tls(io::Error::other(error)))?;
        let shaken = timeout(TAKES, tls.connect(name, socket)).await.map_err(|_| DialError::Silent)?;
        Ok(Box::new(shaken.map_err(DialError::Tls)?))
    }

    /// A tunnel through the proxy.
    pub async fn tunnel(&self, proxy: &ProxyUrl, to: Wanted<'_>) -> Result<Box<dyn Stream>, DialError> {
        let stream = self.reach(proxy).await?;
        timeout(ANSWERS, asked(stream, proxy, to)).await.map_err(|_| DialError::Silent)?
    }
}

async fn asked(
    mut stream: Box<dyn Stream>,
    proxy: &ProxyUrl,
    to: Wanted<'_>,
) -> Result<Box<dyn Stream>, DialError> {
    if matches!(proxy.scheme, ProxyScheme::Http | ProxyScheme::Https) {
        let request = http::connect(proxy, &to.authority());
        stream.write_all(request.as_bytes()).await.map_err(DialError::Broken)?;
        stream.flush().await.map_err(DialError::Broken)?;
        http::tunnelled(&mut stream, proxy).await?;
        return Ok(stream);
    }
    let user = proxy.user.as_deref().zip(proxy.password.as_ref().map(SecretValue::reveal));
    let by_address = to.address.filter(|_| proxy.scheme == ProxyScheme::Socks5 || to.name.is_none());
    let tunnel = match (by_address, to.name, user) {
        (Some(address), _, None) => Socks5Stream::connect_with_socket(stream, address).await,
        (Some(address), _, Some((user, password))) => {
            Socks5Stream::connect_with_password_and_socket(stream, address, user, password).await
        }
        (None, Some(name), None) => Socks5Stream::connect_with_socket(stream, (name, to.port)).await,
        (None, Some(name), Some((user, password))) => {
            Socks5Stream::connect_with_password_and_socket(stream, (name, to.port), user, password).await
        }
        (None, None, _) => return Err(DialError::Nothing),
    };
    match tunnel {
        Ok(tunnel) => Ok(Box::new(tunnel.into_inner())),
        Err(tokio_socks::Error::NoAcceptableAuthMethods | tokio_socks::Error::AuthorizationRequired) => {
            Err(DialError::WantsPassword)
        }
        Err(tokio_socks::Error::PasswordAuthFailure(_)) => Err(DialError::WrongPassword),
        Err(tokio_socks::Error::Io(error)) => Err(DialError::Broken(error)),
        Err(other) => Err(DialError::Socks(other)),
    }
}

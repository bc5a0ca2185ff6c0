//! Proxies as companies have them, on the loopback: real ones, with a table in the place of the world.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What a proxy is asked for (`name:port`), and where that is in truth. It refuses everything else.
pub type Table = HashMap<String, SocketAddr>;

/// A proxy, and what it was asked for.
pub struct Proxy {
    pub port: u16,
    pub asked: Receiver<String>,
}

impl Proxy {
    /// `authorization` is what must stand in `Proxy-Authorization`.
    pub fn http(table: Table, authorization: Option<&'static str>) -> Self {
        start(move |stream, seen| {
            let table = table.clone();
            async move { http(stream, &table, authorization, &seen).await }
        })
    }

    /// [`Self::http`] inside of TLS.
    pub fn https(table: Table, config: rustls::ServerConfig) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        start(move |stream, seen| {
            let (table, acceptor) = (table.clone(), acceptor.clone());
            async move { http(acceptor.accept(stream).await?, &table, None, &seen).await }
        })
    }

    /// `user` has this name and password.
    pub fn socks(table: Table, user: Option<(&'static str, &'static str)>) -> Self {
        start(move |stream, seen| {
            let table = table.clone();
            async move { socks(stream, &table, user, &seen).await }
        })
    }
}

fn start<F>(serve: impl Fn(TcpStream, Sender<String>) -> F + Send + 'static) -> Proxy
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let (seen, asked) = channel();
    let (ready, port) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ready.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, seen.clone()));
            }
        });
    });
    Proxy { port: port.recv().unwrap(), asked }
}

async fn http(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    table: &Table,
    authorization: Option<&str>,
    seen: &Sender<String>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let line = head.lines().next().unwrap().to_string();
    seen.send(line.clone()).unwrap();
    let given = head.lines().find_map(|field| field.strip_prefix("Proxy-Authorization: "));
    if given != authorization {
        return stream.write_all(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n").await;
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (host, path) = match target.strip_prefix("http://") {
        Some(rest) => {
            rest.split_once('/').map(|(host, path)| (format!("{host}:80"), format!("/{path}"))).unwrap()
        }
        None => (target.to_string(), String::new()),
    };
    let Some(to) = table.get(&host) else {
        return stream.write_all(b"HTTP/1.1 403 Not for you\r\nContent-Length: 0\r\n\r\n").await;
    };
    let mut server = TcpStream::connect(to).await?;
    if method == "CONNECT" {
        // The server may speak first: both in one segment.
        stream.write_all(b"HTTP/1.1 200 Fine\r\nVia: x\r\n\r\n").await?;
        server.write_all(&bytes[end..]).await?;
    } else {
        let fields = head.lines().skip(1).filter(|field| !field.starts_with("Proxy-"));
        let request = format!("{method} {path} HTTP/1.1\r\n{}", fields.collect::<Vec<_>>().join("\r\n"));
        server.write_all(format!("{request}\r\n").as_bytes()).await?;
        server.write_all(&bytes[end..]).await?;
    }
    copy_bidirectional(&mut stream, &mut server).await.map(drop)
}

async fn socks(
    mut stream: TcpStream,
    table: &Table,
    user: Option<(&str, &str)>,
    seen: &Sender<String>,
) -> std::io::Result<()> {
    let count = { (stream.read_u8().await?, stream.read_u8().await?).1 };
    let mut methods = vec![0; count.into()];
    stream.read_exact(&mut methods).await?;
    let method = if user.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        return stream.write_all(&[5, 0xff]).await;
    }
    stream.write_all(&[5, method]).await?;
    if let Some((name, password)) = user {
        stream.read_u8().await?;
        let mut given = Vec::new();
        for _ in 0..2 {
            let mut text = vec![0; stream.read_u8().await?.into()];
            stream.read_exact(&mut text).await?;
            given.push(String::from_utf8(text).unwrap());
        }
        let known = given == [name, password];
        stream.write_all(&[1, u8::from(!known)]).await?;
        if !known {
            return Ok(());
        }
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = if request[3] == 3 {
        let mut name = vec![0; stream.read_u8().await?.into()];
        stream.read_exact(&mut name).await?;
        String::from_utf8(name).unwrap()
    } else {
        IpAddr::from(Ipv4Addr::from(stream.read_u32().await?)).to_string()
    };
    let target = format!("{host}:{}", stream.read_u16().await?);
    seen.send(target.clone()).unwrap();
    let Some(to) = table.get(&target) else {
        return stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).await;
    };
    let mut server = TcpStream::connect(to).await?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    copy_bidirectional(&mut stream, &mut server).await.map(drop)
}

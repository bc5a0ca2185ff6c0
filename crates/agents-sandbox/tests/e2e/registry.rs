use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use sha2::{Digest, Sha256};

/// A registry of container images on the host's loopback that has one image, `hello`, with the file `/hello`.
pub struct Registry {
    pub port: u16,
    asked: Arc<AtomicUsize>,
}

struct Reply {
    path: String,
    media_type: &'static str,
    content: Vec<u8>,
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

impl Registry {
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(AtomicUsize::new(0));
        let (replies, count) = (replies(), Arc::clone(&asked));
        // Ends with the test's process.
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = answer(&socket, &replies);
            }
        });
        Self { port, asked }
    }

    /// Connections so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn replies() -> Vec<Reply> {
    let mut layer = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(6);
    header.set_mode(0o644);
    layer.append_data(&mut header, "hello", &b"pulled"[..]).unwrap();
    let layer = layer.into_inner().unwrap();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": {},
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let part = |media_type, content: &[u8]| json!({ "mediaType": media_type, "digest": digest(content), "size": content.len() });
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": part(CONFIG, &config), "layers": [part(LAYER, &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let at = |path: String, media_type, content: &[u8]| Reply { path, media_type, content: content.to_vec() };
    vec![
        at("/v2/".into(), "application/json", b"{}"),
        at("/v2/hello/manifests/latest".into(), MANIFEST, &manifest),
        at(format!("/v2/hello/manifests/{}", digest(&manifest)), MANIFEST, &manifest),
        at(format!("/v2/hello/blobs/{}", digest(&config)), CONFIG, &config),
        at(format!("/v2/hello/blobs/{}", digest(&layer)), LAYER, &layer),
    ]
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}

/// One request, one answer.
fn answer(socket: &TcpStream, replies: &[Reply]) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut socket = socket;
    let Some(reply) = replies.iter().find(|reply| reply.path == path) else {
        return socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    };
    let Reply { media_type, content, .. } = reply;
    let (length, digest) = (content.len(), digest(content));
    write!(
        socket,
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\ndocker-content-digest: {digest}\r\nconnection: close\r\n\r\n"
    )?;
    if method == "HEAD" { Ok(()) } else { socket.write_all(content) }
}

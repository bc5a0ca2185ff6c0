//! What the lab needs from the host: the runtime, and the image as an engine would save it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sandbox_runtime_microsandbox::{RuntimeSource, ensure};
use sandbox_state::{Environment, Layout};
use sha2::{Digest, Sha256};

/// Installs the pinned runtime below `place` as the program would; the folder with its `bin` and `lib`.
pub fn install(place: &Path) -> Result<PathBuf, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let environment =
        Environment { home: Some(place.into()), xdg_data_home: Some(place.into()), ..Environment::default() };
    let layout = Layout::new(&environment).map_err(|error| text(&error))?;
    let installed = ensure(&layout, &RuntimeSource::default(), &mut |event| eprintln!("{event:?}"));
    let installed = installed.map_err(|error| text(&error))?;
    Ok(layout.msb_files().version(installed.version))
}

/// Writes `image.tar`, a docker archive of these layers, lowest first, and `image-id` into `to`.
pub fn pack(to: &Path, layers: &[&str]) -> io::Result<()> {
    let digests = layers.iter().map(|layer| digest(Path::new(layer))).collect::<io::Result<Vec<_>>>()?;
    let config = serde_json::to_vec(&serde_json::json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "FROM_IMAGE=yes"],
            "Labels": { "org.agents-sandbox.managed": "true" },
        },
        "rootfs": { "type": "layers", "diff_ids": digests },
        "history": [],
    }))?;
    let id = hex::encode(Sha256::digest(&config));
    let name = format!("{id}.json");
    let names: Vec<String> = (0..layers.len()).map(|number| format!("layer-{number}.tar")).collect();
    let manifest = serde_json::json!([{ "Config": name, "RepoTags": ["contract:latest"], "Layers": names }]);
    let mut archive = tar::Builder::new(File::create(to.join("image.tar"))?);
    for (name, content) in [(name.as_str(), config), ("manifest.json", serde_json::to_vec(&manifest)?)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content.as_slice())?;
    }
    for (layer, name) in layers.iter().zip(names) {
        archive.append_path_with_name(layer, name)?;
    }
    archive.into_inner()?.sync_all()?;
    std::fs::write(to.join("image-id"), id)
}

fn digest(layer: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(layer)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("sha256:{}", hex::encode(hash.finalize()))),
            read => hash.update(&buffer[..read]),
        }
    }
}

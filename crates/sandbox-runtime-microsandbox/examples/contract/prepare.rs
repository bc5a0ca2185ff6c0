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

/// Writes `image.tar`, a docker archive of one layer, and `image-id` into `to`.
pub fn pack(layer: &Path, to: &Path) -> io::Result<()> {
    let mut hash = Sha256::new();
    let mut file = File::open(layer)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    let config = serde_json::to_vec(&serde_json::json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "FROM_IMAGE=yes"],
            "Labels": { "org.agents-sandbox.managed": "true" },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex::encode(hash.finalize()))] },
        "history": [],
    }))?;
    let id = hex::encode(Sha256::digest(&config));
    let name = format!("{id}.json");
    let manifest =
        serde_json::json!([{ "Config": name, "RepoTags": ["contract:latest"], "Layers": ["layer.tar"] }]);
    let mut archive = tar::Builder::new(File::create(to.join("image.tar"))?);
    for (name, content) in [(name.as_str(), config), ("manifest.json", serde_json::to_vec(&manifest)?)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content.as_slice())?;
    }
    archive.append_path_with_name(layer, "layer.tar")?;
    archive.into_inner()?.sync_all()?;
    std::fs::write(to.join("image-id"), id)
}

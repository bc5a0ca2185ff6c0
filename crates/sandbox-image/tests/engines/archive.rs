use std::collections::BTreeMap;
use std::io::{Cursor, Read};

/// What a merged image has at one path.
#[derive(Debug, Clone)]
pub struct File {
    pub uid: u64,
    pub mode: u32,
    /// Of small files.
    pub text: String,
    pub link: Option<String>,
}

/// A docker archive, its layers merged in order.
pub struct Image {
    pub config: serde_json::Value,
    /// Hex digits of the name of the configuration, which is the image's id.
    pub id: String,
    files: BTreeMap<String, File>,
}

const SMALL: u64 = 1 << 20;

impl Image {
    pub fn read(archive: impl Read) -> Self {
        let mut parts = BTreeMap::new();
        let mut layers: BTreeMap<String, BTreeMap<String, File>> = BTreeMap::new();
        for entry in tar::Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let extension = std::path::Path::new(&name).extension().and_then(|text| text.to_str());
            if extension == Some("json") {
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                parts.insert(name, text);
            } else if extension == Some("tar") && entry.header().entry_type().is_file() {
                layers.insert(name, read_layer(&mut entry));
            }
        }
        let manifest: serde_json::Value = serde_json::from_str(&parts["manifest.json"]).unwrap();
        let config = manifest[0]["Config"].as_str().unwrap();
        let mut files = BTreeMap::new();
        for layer in manifest[0]["Layers"].as_array().unwrap() {
            files.extend(layers[layer.as_str().unwrap()].clone());
        }
        Self {
            config: serde_json::from_str(&parts[config]).unwrap(),
            id: config.trim_end_matches(".json").into(),
            files,
        }
    }

    /// The file at an absolute path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub fn text(&self, path: &str) -> &str {
        &self.get(path).unwrap_or_else(|| panic!("{path} is not in the image")).text
    }

    pub fn env(&self, name: &str) -> Option<&str> {
        let env = self.config["config"]["Env"].as_array().unwrap();
        env.iter()
            .filter_map(|pair| pair.as_str().unwrap().split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    pub fn label(&self, name: &str) -> &str {
        self.config["config"]["Labels"][name].as_str().unwrap()
    }
}

fn read_layer(layer: impl Read) -> BTreeMap<String, File> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(layer).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let name = format!("/{}", name.trim_start_matches("./").trim_matches('/'));
        let header = entry.header().clone();
        let mut bytes = Cursor::new(Vec::new());
        if header.size().unwrap() < SMALL {
            std::io::copy(&mut entry, &mut bytes).unwrap();
        }
        let link = entry.link_name().unwrap().map(|target| target.to_string_lossy().into_owned());
        let file = File {
            uid: header.uid().unwrap(),
            mode: header.mode().unwrap(),
            text: String::from_utf8_lossy(bytes.get_ref()).into_owned(),
            link,
        };
        files.insert(name, file);
    }
    files
}

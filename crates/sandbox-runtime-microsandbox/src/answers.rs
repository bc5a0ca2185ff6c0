//! The JSON that `msb` 0.7.11 prints, as far as the driver reads it.

use std::collections::BTreeMap;

use sandbox_model::{Digest, Status};
use sandbox_runtime::RuntimeError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One row of `msb list --format json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Row {
    pub name: String,
    /// `Running`, `Stopped`, `Crashed`, `Draining`, `Paused`.
    pub status: String,
}

impl Row {
    /// In our words; one that neither knows is [`Status::Unknown`].
    pub fn status(&self) -> Status {
        match self.status.to_ascii_lowercase().as_str() {
            "creating" | "booting" => Status::Starting,
            "stopping" => Status::Draining,
            word => Status::parse(word),
        }
    }
}

/// `msb image inspect --format json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Image {
    pub config: ImageConfig,
    pub layers: Vec<Layer>,
    pub size_bytes: u64,
}

/// The part of an image's OCI configuration that is read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageConfig {
    #[serde(default)]
    pub env: Option<Vec<String>>,
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
}

/// One layer. They come in no order: `position` counts from the lowest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Layer {
    pub diff_id: Digest,
    pub position: u32,
}

/// One row of `msb image list --format json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageRow {
    pub reference: String,
}

/// Reads what `msb` printed. `what` is the call, for the error.
pub fn parse<T: DeserializeOwned>(what: &str, json: &[u8]) -> Result<T, RuntimeError> {
    serde_json::from_slice(json).map_err(|error| {
        RuntimeError::other(format!("the answer of `msb {what}` is not what this program knows: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_answers_are_read() {
        let rows: Vec<Row> = parse("list", include_bytes!("../tests/fixtures/list.json")).unwrap();
        let statuses: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.status())).collect();
        assert_eq!(statuses, [("t1", Status::Running), ("t2", Status::Crashed), ("t3", Status::Stopped)]);

        let image: Image =
            parse("image inspect", include_bytes!("../tests/fixtures/image-inspect.json")).unwrap();
        assert_eq!(image.layers.len(), 1);
        assert_eq!(image.layers[0].diff_id.short(), "sha256:38455ffb72ae");
        assert_eq!(image.size_bytes, 123_799_040);
        assert!(image.config.env.unwrap().contains(&"FROM_IMAGE=yes".to_string()));
        assert_eq!(image.config.labels.unwrap()["org.agents-sandbox.managed"], "true");

        let images: Vec<ImageRow> =
            parse("image list", include_bytes!("../tests/fixtures/image-list.json")).unwrap();
        assert_eq!(images.len(), 2);
    }

    #[test]
    fn an_unknown_word_stays_one() {
        let row = Row { name: "x".into(), status: "Hibernating".into() };
        assert_eq!(row.status(), Status::Unknown("hibernating".into()));
    }

    #[test]
    fn what_is_no_answer_names_the_question() {
        let error = parse::<Vec<Row>>("list", b"oops").unwrap_err().to_string();
        assert!(error.contains("`msb list`"), "{error}");
    }
}

use sandbox_config::{ImageBase, Settings};

use super::{Finding, find};

pub fn mke2fs() -> Finding {
    match find("mke2fs") {
        Some(path) => Finding::good("mke2fs", path.display().to_string()),
        None => Finding::missing("mke2fs", "not installed", "install it: `apt-get install e2fsprogs`"),
    }
}

/// Only needed where the base image comes from no registry.
pub fn bootstrap(settings: &Settings) -> Finding {
    let check = "mmdebstrap";
    let hint = "`apt-get install mmdebstrap` lets the base image be made where no registry is reached";
    match (find(check), &settings.image_base.value) {
        (Some(path), _) => Finding::good(check, path.display().to_string()),
        (None, ImageBase::Bootstrap { .. }) => {
            Finding::missing(check, "not installed, and `image.base` asks for it", hint)
        }
        (None, _) => Finding::note(check, "not installed: the base image must come from a registry", hint),
    }
}

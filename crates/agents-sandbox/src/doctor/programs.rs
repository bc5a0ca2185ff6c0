use sandbox_config::{ImageBase, Settings};
use sandbox_state::find_system_tool;

use super::Finding;

pub fn mke2fs() -> Finding {
    match find_system_tool("mke2fs") {
        Ok(path) => Finding::good("mke2fs", path.display().to_string()),
        Err(_) => Finding::missing("mke2fs", "not installed", "install it: `apt-get install e2fsprogs`"),
    }
}

/// Only needed where the base image comes from no registry.
pub fn bootstrap(settings: &Settings) -> Finding {
    let check = "mmdebstrap";
    let hint = "`apt-get install mmdebstrap` lets the base image be made where no registry is reached";
    match (find_system_tool(check), &settings.image_base.value) {
        (Ok(path), _) => Finding::good(check, path.display().to_string()),
        (Err(_), ImageBase::Bootstrap { .. }) => {
            Finding::missing(check, "not installed, and `image.base` asks for it", hint)
        }
        (Err(_), _) => Finding::note(check, "not installed: the base image must come from a registry", hint),
    }
}

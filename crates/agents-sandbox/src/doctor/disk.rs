use sandbox_model::ByteSize;
use sandbox_state::Layout;

use super::Finding;

const CHECK: &str = "disk space";
/// An image with an agent, its unpacked copy, and a home.
const WANTED: ByteSize = ByteSize::gib(5);

pub fn check(layout: &Layout) -> Finding {
    let Some(nearest) = layout.data.ancestors().find(|dir| dir.exists()) else {
        return Finding::note(CHECK, "unknown", "look at `df`");
    };
    let free = match rustix::fs::statvfs(nearest) {
        Ok(disk) => ByteSize::from_bytes(disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => return Finding::note(CHECK, format!("unknown: {error}"), "look at `df`"),
    };
    let detail = format!("{} free for {}", free.human(), layout.data.display());
    if free < WANTED {
        return Finding::note(CHECK, detail, format!("a first image needs about {}", WANTED.human()));
    }
    Finding::good(CHECK, detail)
}

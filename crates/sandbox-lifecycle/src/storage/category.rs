//! What a file is for, told by its path. Pure.

use std::path::Path;

use sandbox_state::Layout;

/// What storage is used for, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// What root disks are made over, shared by every sandbox of an image.
    BaseImages,
    /// What one sandbox alone has, its root disk above all.
    PrivateDisks,
    /// What sleeping sandboxes go on with.
    SavedMemory,
    /// The users' data.
    HomeVolumes,
    /// Guest kernels and initrds, by content.
    Kernels,
    /// The private microsandbox, without its images and sandboxes.
    Runtime,
    /// What buildah and podman keep for us, and bases made here.
    EngineImages,
    /// Of sandboxes, and of their keepers.
    Logs,
    /// State files, locks, and everything without a place of its own.
    Records,
}

impl Category {
    /// In the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::BaseImages,
        Self::PrivateDisks,
        Self::SavedMemory,
        Self::HomeVolumes,
        Self::Kernels,
        Self::Runtime,
        Self::EngineImages,
        Self::Logs,
        Self::Records,
    ];

    /// The word for it in tables and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BaseImages => "base images",
            Self::PrivateDisks => "private disks",
            Self::SavedMemory => "saved memory",
            Self::HomeVolumes => "home volumes",
            Self::Kernels => "kernels",
            Self::Runtime => "runtime",
            Self::EngineImages => "engine images",
            Self::Logs => "logs",
            Self::Records => "records",
        }
    }
}

/// How the files of a sleeping sandbox's memory begin. What makes them valid is a record of a few bytes.
const SAVED: [&str; 2] = ["memory.ram", "memory.state"];

/// The category of a file in one of our folders, and the name of the thing that it is a part of: a sandbox,
/// a volume, an image's digest, or the folder itself.
pub fn of(layout: &Layout, path: &Path) -> (Category, String) {
    // A log that has become too long goes on under its name, and what it was ends in `.1`.
    let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let log = name.ends_with(b".log") || name.ends_with(b".log.1");
    if let Ok(inside) = path.strip_prefix(&layout.data) {
        return of_data(inside, log);
    }
    let inside = path.strip_prefix(&layout.state).unwrap_or(path);
    match (log, part(inside, 0), part(inside, 1)) {
        (true, Some(checkout), Some(agent)) => (Category::Logs, format!("{checkout}-{agent}")),
        (_, first, _) => (Category::Records, first.unwrap_or("folders").into()),
    }
}

fn of_data(inside: &Path, log: bool) -> (Category, String) {
    // A folder of many things is none of them.
    let own = |category: Category, at: usize| match part(inside, at) {
        Some(name) => (category, name.strip_suffix(".ext4").unwrap_or(name).to_string()),
        None => (Category::Records, "folders".into()),
    };
    match (part(inside, 0), part(inside, 1)) {
        (Some("volumes"), _) => own(Category::HomeVolumes, 1),
        (Some("qemu"), Some("images")) => own(Category::BaseImages, 2),
        (Some("qemu"), Some("sandboxes"))
            if part(inside, 3).is_some_and(|file| SAVED.iter().any(|saved| file.starts_with(saved))) =>
        {
            own(Category::SavedMemory, 2)
        }
        (Some("qemu" | "msb"), Some("sandboxes")) => {
            own(if log { Category::Logs } else { Category::PrivateDisks }, 2)
        }
        (Some("qemu"), Some("boot")) => own(Category::Kernels, 2),
        // Their root disks lie beside our records of them.
        (Some("msb"), Some("records")) if part(inside, 2) == Some("sandboxes") => {
            own(if log { Category::Logs } else { Category::PrivateDisks }, 3)
        }
        (Some("msb"), Some(kind @ ("cache" | "images" | "layers" | "fsmeta" | "vmdk"))) => {
            (Category::BaseImages, format!("msb/{kind}"))
        }
        (Some("msb"), _) => own(Category::Runtime, 1),
        (Some("engine"), _) => own(Category::EngineImages, 1),
        (Some(first), _) => (Category::Records, first.into()),
        (None, _) => (Category::Records, "folders".into()),
    }
}

/// One component; a name that is not UTF-8 counts to the folder above.
fn part(path: &Path, at: usize) -> Option<&str> {
    path.components().nth(at)?.as_os_str().to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_its_category() {
        let layout = Layout {
            config: "/c/agents-sandbox".into(),
            state: "/s/agents-sandbox".into(),
            data: "/d/agents-sandbox".into(),
        };
        for (path, category, name) in [
            ("/d/agents-sandbox/volumes/p-pi-1.ext4", Category::HomeVolumes, "p-pi-1"),
            ("/d/agents-sandbox/volumes/.new-p-pi.Xy/home.ext4", Category::HomeVolumes, ".new-p-pi.Xy"),
            ("/d/agents-sandbox/msb/records/sandboxes/p-pi/root.img", Category::PrivateDisks, "p-pi"),
            ("/d/agents-sandbox/qemu/images/ab12/rootfs.erofs", Category::BaseImages, "ab12"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/root.ext4", Category::PrivateDisks, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/console.log", Category::Logs, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/console.log.1", Category::Logs, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/memory.ram", Category::SavedMemory, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/memory.ram.new", Category::SavedMemory, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/memory.state", Category::SavedMemory, "p-pi"),
            ("/d/agents-sandbox/qemu/sandboxes/p-pi/memory.lock", Category::PrivateDisks, "p-pi"),
            ("/d/agents-sandbox/qemu/boot/vmlinux-1", Category::Kernels, "vmlinux-1"),
            ("/d/agents-sandbox/qemu/kvm.json", Category::Records, "qemu"),
            ("/d/agents-sandbox/msb/0.7.0/bin/msb", Category::Runtime, "0.7.0"),
            ("/d/agents-sandbox/msb/sandboxes/p-pi/disk", Category::PrivateDisks, "p-pi"),
            ("/d/agents-sandbox/engine/storage/x", Category::EngineImages, "storage"),
            ("/d/agents-sandbox", Category::Records, "folders"),
            ("/d/agents-sandbox/volumes", Category::Records, "folders"),
            ("/d/agents-sandbox/qemu/sandboxes", Category::Records, "folders"),
            ("/s/agents-sandbox", Category::Records, "folders"),
            ("/s/agents-sandbox/p/pi/keeper.log", Category::Logs, "p-pi"),
            ("/s/agents-sandbox/p/pi/state.yaml", Category::Records, "p"),
            ("/s/agents-sandbox/locks/images.lock", Category::Records, "locks"),
        ] {
            assert_eq!(of(&layout, Path::new(path)), (category, name.into()), "{path}");
        }
    }
}

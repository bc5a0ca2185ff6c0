//! Builds the guest program as a static binary and packs it into the initrd that every boot uses.
//!
//! The nested cargo has a target folder of its own: it can neither deadlock with the outer one's lock
//! nor invalidate its artefacts.

use std::env;
use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for room in ["sandbox-guest", "sandbox-wire", "sandbox-model"] {
        println!("cargo::rerun-if-changed={}", manifest.join("..").join(room).join("src").display());
        println!("cargo::rerun-if-changed={}", manifest.join("..").join(room).join("Cargo.toml").display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let guest = build_guest(&manifest, &out)?;
    let guest = fs::read(guest)?;
    let initrd = initrd(&guest)?;
    // The archive holds it byte for byte, so that it is in the program only once.
    let start = initrd.windows(guest.len()).position(|part| part == guest).ok_or("the guest is not in it")?;
    println!("cargo::rustc-env=GUEST_START={start}");
    println!("cargo::rustc-env=GUEST_LENGTH={}", guest.len());
    // The id names the file on disk: two programs with different guests must not share one.
    let mut hasher = DefaultHasher::new();
    initrd.hash(&mut hasher);
    println!("cargo::rustc-env=INITRD_ID={:016x}", hasher.finish());
    fs::write(out.join("initrd.cpio"), initrd)?;
    Ok(())
}

fn build_guest(manifest: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = format!("{}-unknown-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH")?);
    // OUT_DIR is <target>/<profile>/build/<package>/out: one guest folder serves every profile.
    let target_dir = out.ancestors().nth(4).ok_or("OUT_DIR is too short")?.join("guest-program");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .args([
            "build",
            "--quiet",
            "--profile",
            "guest",
            "--package",
            "sandbox-guest",
            "--bin",
            "sandbox-guest",
        ])
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(manifest)
        // A static binary needs nothing of the image it runs above.
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CLIPPY_ARGS")
        .env_remove("RUSTDOCFLAGS");
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("the guest program did not build: {status}").into());
    }
    Ok(target_dir.join(target).join("guest").join("sandbox-guest"))
}

/// A "newc" cpio archive with `/init` and the `/dev/console` that the kernel opens for it.
/// Format: the Linux kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`.
fn initrd(init: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    use cpio::NewcBuilder;
    let mut archive = Vec::new();
    let mut add = |builder: NewcBuilder, body: &[u8]| -> Result<(), Box<dyn Error>> {
        let mut entry = builder.write(&mut archive, u32::try_from(body.len())?);
        entry.write_all(body)?;
        entry.finish()?;
        Ok(())
    };
    add(NewcBuilder::new("dev").ino(1).mode(0o040_755).nlink(2), &[])?;
    add(NewcBuilder::new("dev/console").ino(2).mode(0o020_600).nlink(1).rdev_major(5).rdev_minor(1), &[])?;
    add(NewcBuilder::new("init").ino(3).mode(0o100_755).nlink(1), init)?;
    cpio::newc::trailer(archive).map_err(Into::into)
}

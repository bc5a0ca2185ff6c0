//! The guest's kernel: microsandbox's own, taken out of `libkrunfw` and wrapped so that QEMU boots it.
//!
//! `libkrunfw` is a shared library whose only content is a kernel image, meant to be copied to guest
//! memory as it is. It is read here as a file and never loaded: its code does not run on the host. The
//! image carries a Xen note of type 18 (`PHYS32_ENTRY`), the address of its PVH entry point; an ELF
//! file with one segment and that note is what QEMU's `microvm` boots directly.

use std::io::Read;
use std::path::{Path, PathBuf};

use fs_err as fs;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, U16, U32, U64, elf};
use sandbox_state::StateError;

/// Where `libkrunfw` wants its image in guest memory, physically and as the kernel sees it.
const LOAD_PHYSICAL: u64 = 0x100_0000;
const LOAD_VIRTUAL: u64 = 0xffff_ffff_8100_0000;
/// The data symbol that `krunfw_get_kernel` returns the address of.
const BUNDLE: &[u8] = b"KERNEL_BUNDLE";
const PAGE: u64 = 0x1000;
/// Part of the wrapped file's name: raised whenever the wrapping changes.
const WRAPPING: u32 = 1;
/// `XEN_ELFNOTE_PHYS32_ENTRY` of Xen's `elfnote.h`.
const PHYS32_ENTRY: u32 = 18;
const NOTE_SIZE: usize = 24;

/// Why a file is no kernel that QEMU can boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    #[error("{path} holds no guest kernel: {problem}")]
    NoKernel { path: PathBuf, problem: String },
    #[error(
        "{path} cannot be booted directly: {problem} (needed: an uncompressed ELF kernel, `vmlinux`, built with CONFIG_PVH)"
    )]
    NotBootable { path: PathBuf, problem: String },
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    State(#[from] StateError),
}

/// The kernel inside `libkrunfw`, as a file in `boot_dir` that QEMU's `-kernel` takes.
///
/// The file is named by the library's build id and written only when it is missing, in one step.
pub fn wrapped_kernel(libkrunfw: &Path, boot_dir: &Path) -> Result<PathBuf, KernelError> {
    let cache = ReadCache::new(fs::File::open(libkrunfw)?);
    let bundle =
        Bundle::find(&cache).map_err(|problem| KernelError::NoKernel { path: libkrunfw.into(), problem })?;
    let wrapped = boot_dir.join(format!("vmlinux-{}-{WRAPPING}", bundle.build_id));
    if fs::metadata(&wrapped).is_ok_and(|found| found.len() == PAGE + bundle.size) {
        return Ok(wrapped);
    }
    let kernel = bundle.read(libkrunfw)?;
    let entry = pvh_entry(&kernel).ok_or_else(|| KernelError::NoKernel {
        path: libkrunfw.into(),
        problem: "its kernel has no PVH entry point".into(),
    })?;
    sandbox_state::write_private(&wrapped, &wrap_pvh(&kernel, entry))?;
    Ok(wrapped)
}

/// Whether QEMU can boot this file directly. `Ok` is no promise that its drivers fit.
pub fn check_kernel(path: &Path) -> Result<(), KernelError> {
    let cache = ReadCache::new(fs::File::open(path)?);
    let bits = match object::FileKind::parse(&cache) {
        Ok(object::FileKind::Elf64) => has_pvh_note::<elf::FileHeader64<Endianness>>(&cache),
        Ok(object::FileKind::Elf32) => has_pvh_note::<elf::FileHeader32<Endianness>>(&cache),
        _ => Err("it is no ELF file".to_string()),
    };
    let problem = match bits {
        Ok(true) => return Ok(()),
        Ok(false) => "it has no PVH note".to_string(),
        Err(problem) => problem,
    };
    Err(KernelError::NotBootable { path: path.into(), problem })
}

/// Looks where QEMU looks: in the segments of type `PT_NOTE`.
fn has_pvh_note<'data, Elf: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> Result<bool, String> {
    let problem = |error: object::Error| format!("its ELF headers are damaged: {error}");
    let header = Elf::parse(data).map_err(problem)?;
    let endian = header.endian().map_err(problem)?;
    for segment in header.program_headers(endian, data).map_err(problem)? {
        let Some(mut notes) = segment.notes(endian, data).map_err(problem)? else { continue };
        while let Some(note) = notes.next().map_err(problem)? {
            if note.name() == b"Xen" && note.n_type(endian).0 == PHYS32_ENTRY {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Where the image lies in the library's file.
struct Bundle {
    offset: u64,
    size: u64,
    build_id: String,
}

impl Bundle {
    fn find(library: &ReadCache<fs::File>) -> Result<Self, String> {
        let file = object::File::parse(library).map_err(|error| error.to_string())?;
        if file.architecture() != object::Architecture::X86_64 {
            return Err(format!("it is built for {:?}", file.architecture()));
        }
        let build_id = match file.build_id() {
            Ok(Some(id)) if !id.is_empty() && id.len() <= 64 => hex::encode(id),
            _ => return Err("it has no build id".into()),
        };
        let symbol = file
            .dynamic_symbols()
            .find(|symbol| symbol.name_bytes() == Ok(BUNDLE))
            .ok_or("it has no symbol KERNEL_BUNDLE")?;
        let section = symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok())
            .ok_or("KERNEL_BUNDLE is not in the file")?;
        let (start, length) = section.file_range().ok_or("KERNEL_BUNDLE is not in the file")?;
        let within = symbol.address().checked_sub(section.address());
        // The image is a string literal: a NUL follows its whole pages.
        let size = symbol.size() & !(PAGE - 1);
        match within {
            Some(within) if size > 0 && within.checked_add(size).is_some_and(|end| end <= length) => {
                Ok(Self { offset: start + within, size, build_id })
            }
            _ => Err("KERNEL_BUNDLE is not in the file".into()),
        }
    }

    fn read(&self, library: &Path) -> Result<Vec<u8>, KernelError> {
        use std::io::{Seek, SeekFrom};

        let mut file = fs::File::open(library)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut kernel = Vec::new();
        file.take(self.size).read_to_end(&mut kernel)?;
        if kernel.len() as u64 != self.size {
            let problem = "the file ends inside it".into();
            return Err(KernelError::NoKernel { path: library.into(), problem });
        }
        Ok(kernel)
    }
}

/// A Xen note of type `PHYS32_ENTRY` with an eight-byte address.
fn pvh_note(entry: u32) -> [u8; NOTE_SIZE] {
    let mut note = [0; NOTE_SIZE];
    note[0..4].copy_from_slice(&4_u32.to_le_bytes());
    note[4..8].copy_from_slice(&8_u32.to_le_bytes());
    note[8..12].copy_from_slice(&PHYS32_ENTRY.to_le_bytes());
    note[12..16].copy_from_slice(b"Xen\0");
    note[16..20].copy_from_slice(&entry.to_le_bytes());
    note
}

/// The physical address that the image's own PVH note names, if it lies inside the image.
fn pvh_entry(kernel: &[u8]) -> Option<u32> {
    let inside = LOAD_PHYSICAL..LOAD_PHYSICAL + kernel.len() as u64;
    // Notes are aligned to four bytes.
    (0..kernel.len()).step_by(4).filter_map(|at| kernel.get(at..at + NOTE_SIZE)).find_map(|note| {
        let entry = u32::from_le_bytes(note[16..20].try_into().ok()?);
        (note == pvh_note(entry) && inside.contains(&entry.into())).then_some(entry)
    })
}

/// An ELF64 file of one page of headers and the image: one segment to load, one note.
fn wrap_pvh(kernel: &[u8], entry: u32) -> Vec<u8> {
    let le = Endianness::Little;
    let header_size = size_of::<elf::FileHeader64<Endianness>>();
    let segment_size = size_of::<elf::ProgramHeader64<Endianness>>();
    let note_offset = (header_size + 2 * segment_size) as u64;
    let header = elf::FileHeader64 {
        e_ident: elf::Ident {
            magic: elf::ELFMAG,
            class: elf::ELFCLASS64,
            data: elf::ELFDATA2LSB,
            version: elf::EV_CURRENT,
            os_abi: elf::ELFOSABI_SYSV,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(le, elf::ET_EXEC),
        e_machine: U16::new(le, elf::EM_X86_64),
        e_version: U32::new(le, 1),
        e_entry: U64::new(le, entry.into()),
        e_phoff: U64::new(le, header_size as u64),
        e_shoff: U64::new(le, 0),
        e_flags: U32::new(le, elf::FileFlags(0)),
        e_ehsize: U16::new(le, 64),
        e_phentsize: U16::new(le, 56),
        e_phnum: U16::new(le, 2),
        e_shentsize: U16::new(le, 64),
        e_shnum: U16::new(le, 0),
        e_shstrndx: U16::new(le, elf::SHN_UNDEF),
    };
    let load = elf::ProgramHeader64 {
        p_type: U32::new(le, elf::PT_LOAD),
        p_flags: U32::new(le, elf::PF_R | elf::PF_W | elf::PF_X),
        p_offset: U64::new(le, PAGE),
        p_vaddr: U64::new(le, LOAD_VIRTUAL),
        p_paddr: U64::new(le, LOAD_PHYSICAL),
        p_filesz: U64::new(le, kernel.len() as u64),
        p_memsz: U64::new(le, kernel.len() as u64),
        p_align: U64::new(le, PAGE),
    };
    let note = elf::ProgramHeader64 {
        p_type: U32::new(le, elf::PT_NOTE),
        p_flags: U32::new(le, elf::PF_R),
        p_offset: U64::new(le, note_offset),
        p_vaddr: U64::new(le, 0),
        p_paddr: U64::new(le, 0),
        p_filesz: U64::new(le, NOTE_SIZE as u64),
        p_memsz: U64::new(le, NOTE_SIZE as u64),
        p_align: U64::new(le, 4),
    };
    let mut file = Vec::with_capacity(kernel.len() + 4096);
    file.extend_from_slice(object::bytes_of(&header));
    file.extend_from_slice(object::bytes_of(&load));
    file.extend_from_slice(object::bytes_of(&note));
    file.extend_from_slice(&pvh_note(entry));
    file.resize(4096, 0);
    file.extend_from_slice(kernel);
    file
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const ENTRY: u32 = 0x100_0000;

    /// Two pages with a PVH note in the second.
    fn image() -> Vec<u8> {
        let mut image: Vec<u8> = (0..=255).cycle().take(0x2000).collect();
        image[0x1504..0x1504 + NOTE_SIZE].copy_from_slice(&pvh_note(ENTRY));
        image
    }

    /// A shared library shaped like `libkrunfw`: the image and a NUL behind a data symbol.
    fn library(dir: &Path, image: &[u8], symbol: &str) -> PathBuf {
        fs::write(dir.join("image"), image).unwrap();
        let source = format!(
            ".data\n.balign 4096\n.globl {symbol}\n.type {symbol}, @object\n{symbol}:\n.incbin \"image\"\n.byte 0\n\
             .size {symbol}, . - {symbol}\n"
        );
        fs::write(dir.join("bundle.s"), source).unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-nostdlib", "-Wl,--build-id", "-o", "lib.so", "bundle.s"])
            .current_dir(dir)
            .status()
            .unwrap();
        assert!(status.success());
        dir.join("lib.so")
    }

    #[test]
    fn a_wrapped_image_loads_where_it_belongs_and_names_its_entry() {
        let image = image();
        let file = wrap_pvh(&image, pvh_entry(&image).unwrap());
        let header = elf::FileHeader64::<Endianness>::parse(&*file).unwrap();
        let endian = header.endian().unwrap();
        assert_eq!(header.e_entry(endian), u64::from(ENTRY));
        let segments = header.program_headers(endian, &*file).unwrap();
        let load = &segments[0];
        assert_eq!(load.p_type(endian), elf::PT_LOAD);
        assert_eq!((load.p_paddr(endian), load.p_vaddr(endian)), (0x100_0000, 0xffff_ffff_8100_0000));
        assert_eq!(load.p_memsz(endian), image.len() as u64);
        assert_eq!(load.data(endian, &*file).unwrap(), image);
        let mut notes = segments[1].notes(endian, &*file).unwrap().unwrap();
        let note = notes.next().unwrap().unwrap();
        assert_eq!((note.name(), note.n_type(endian).0), (&b"Xen"[..], 18));
        assert_eq!(note.desc(), u64::from(ENTRY).to_le_bytes());
        assert!(notes.next().unwrap().is_none());
    }

    #[test]
    fn the_image_is_taken_out_of_the_library_once() {
        let dir = tempfile::tempdir().unwrap();
        let image = image();
        let boot = dir.path().join("boot");
        let library = library(dir.path(), &image, "KERNEL_BUNDLE");
        let wrapped = wrapped_kernel(&library, &boot).unwrap();
        assert_eq!(fs::read(&wrapped).unwrap()[0x1000..], image);
        check_kernel(&wrapped).unwrap();

        let written = fs::metadata(&wrapped).unwrap().modified().unwrap();
        assert_eq!(wrapped_kernel(&library, &boot).unwrap(), wrapped);
        assert_eq!(fs::metadata(&wrapped).unwrap().modified().unwrap(), written);
        assert_eq!(fs::read_dir(&boot).unwrap().count(), 1);

        // A file that a full disk or a meddler cut short is made again.
        fs::write(&wrapped, b"short").unwrap();
        assert_eq!(fs::read(wrapped_kernel(&library, &boot).unwrap()).unwrap()[0x1000..], image);
    }

    #[test]
    fn a_library_without_a_kernel_says_what_it_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let boot = dir.path().join("boot");
        let problem = |library: &Path| wrapped_kernel(library, &boot).unwrap_err().to_string();
        let other = library(dir.path(), &image(), "SOMETHING_ELSE");
        assert!(problem(&other).ends_with("it has no symbol KERNEL_BUNDLE"), "{}", problem(&other));
        let empty = library(dir.path(), &[7; 0x2000], "KERNEL_BUNDLE");
        assert!(problem(&empty).ends_with("its kernel has no PVH entry point"), "{}", problem(&empty));
        let bytes = fs::read(&empty).unwrap();
        for cut in [0, 3, 100, 0x1000] {
            fs::write(&empty, &bytes[..cut]).unwrap();
            assert!(matches!(wrapped_kernel(&empty, &boot), Err(KernelError::NoKernel { .. })), "{cut}");
        }
        assert!(!boot.exists());
    }

    #[test]
    fn an_entry_outside_the_image_is_none() {
        let mut image = image();
        image[0x1504..0x1504 + NOTE_SIZE].copy_from_slice(&pvh_note(0x100_2000));
        assert_eq!(pvh_entry(&image), None);
        assert_eq!(pvh_entry(&[]), None);
    }

    #[test]
    fn a_kernel_of_the_users_must_carry_the_note() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmlinux");
        let good = wrap_pvh(&image(), ENTRY);
        fs::write(&path, &good).unwrap();
        check_kernel(&path).unwrap();

        let problem = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            check_kernel(&path).unwrap_err().to_string()
        };
        assert!(problem(b"#!/bin/sh\n").contains("it is no ELF file"));
        assert!(problem(b"").contains("it is no ELF file"));
        let mut other = good.clone();
        other[64 + 2 * 56 + 8] = 17;
        assert!(problem(&other).contains("it has no PVH note (needed: "), "{}", problem(&other));
        assert!(problem(&good[..100]).contains("damaged"), "{}", problem(&good[..100]));
    }
}

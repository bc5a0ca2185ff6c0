//! QEMU's command line: a pure function of what the machine is.
//!
//! Every file that is ours is named relative to the sandbox's folder, where QEMU runs: no path of a
//! user's can be too long for a socket. Paths outside it have their commas doubled, which is how
//! QEMU's option parser takes them (qemu(1), "-drive").

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use sandbox_model::Resources;

use super::config::Accel;
use crate::files::MachineFiles;

/// All that decides what QEMU is told.
#[derive(Debug)]
pub struct QemuCommand<'a> {
    pub name: &'a str,
    pub accel: Accel,
    pub resources: Resources,
    pub kernel: &'a Path,
    pub initrd: &'a Path,
    pub rootfs: &'a Path,
    pub home: &'a Path,
    /// Descriptor numbers in QEMU: the guest link, the console, the control channel, the guest's memory, and the
    /// network bridge where there is a card.
    pub link_fd: i32,
    pub console_fd: i32,
    pub monitor_fd: i32,
    pub ram_fd: i32,
    pub network_fd: Option<i32>,
    /// Whether anything is mounted beside the checkout.
    pub mounts: bool,
    /// The rate of the host's time stamp counter, where it is known.
    pub tsc_khz: Option<u64>,
    /// Wait for a saved state instead of booting.
    pub incoming: bool,
}

/// The name the guest program looks for among its virtio serial ports.
pub const LINK_NAME: &str = "org.agents-sandbox.link";

/// What the guest mounts. `microvm` has eight places for devices: the serial ports, three disks, the checkout,
/// everything beside it, the network card and the balloon.
pub const MOUNTS_TAG: &str = "mounts";

fn with_path(before: &str, path: &Path, after: &str) -> OsString {
    let mut bytes = before.as_bytes().to_vec();
    for byte in path.as_os_str().as_bytes() {
        bytes.push(*byte);
        if *byte == b',' {
            bytes.push(b',');
        }
    }
    bytes.extend_from_slice(after.as_bytes());
    OsString::from_vec(bytes)
}

impl QemuCommand<'_> {
    /// The kernel's command line.
    ///
    /// Without `tsc_early_khz` one boot in five hangs on `microvm` under TCG, which has no other timer
    /// that calibrates. `panic=-1` with QEMU's `-no-reboot` turns a panic into an end.
    fn append(&self) -> String {
        let timer = match (self.accel, self.tsc_khz) {
            (Accel::Tcg, Some(khz)) => format!(" tsc_early_khz={khz} tsc=reliable no_timer_check"),
            _ => String::new(),
        };
        format!("quiet reboot=t panic=-1 console=hvc0{timer}")
    }

    /// The words after the program's name.
    pub fn arguments(&self) -> Vec<OsString> {
        let memory = self.resources.memory.as_mib();
        let accel = match self.accel {
            Accel::Kvm => "kvm",
            Accel::Tcg => "tcg,thread=multi",
        };
        // Agents' JIT compilers need a CPU of today; TCG's default one kills them with SIGILL. Without the
        // two flags the guest's kernel copies memory with instructions that TCG does not run byte by byte:
        // 100 MB through a pipe cost a third of the time.
        let cpu = match self.accel {
            Accel::Kvm => "host",
            Accel::Tcg => "max,-erms,-fsrm",
        };
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |option: &str, value: OsString| {
            arguments.push(option.into());
            arguments.push(value);
        };
        add("-name", with_path("", Path::new(self.name), ""));
        add("-M", "microvm,x-option-roms=off,isa-serial=off,acpi=off,rtc=on,memory-backend=ram".into());
        add("-accel", accel.into());
        add("-cpu", cpu.into());
        add("-smp", self.resources.cpus.to_string().into());
        add("-m", format!("{memory}M").into());
        // The share server maps the guest's memory, so it must be shared. Only memory that QEMU takes for a named
        // file stays out of a saved state.
        let ram = format!("/proc/self/fd/{}", self.ram_fd);
        add("-object", format!("memory-backend-file,id=ram,mem-path={ram},size={memory}M,share=on").into());
        add("-kernel", self.kernel.into());
        add("-initrd", self.initrd.into());
        add("-append", self.append().into());
        add("-global", "virtio-mmio.force-legacy=false".into());
        add("-device", "virtio-serial-device".into());
        add("-chardev", format!("socket,id=console,fd={}", self.console_fd).into());
        add("-device", "virtconsole,chardev=console".into());
        add("-chardev", format!("socket,id=monitor,fd={}", self.monitor_fd).into());
        add("-mon", "chardev=monitor,mode=control".into());
        add("-chardev", format!("socket,id=link,fd={}", self.link_fd).into());
        add("-device", format!("virtserialport,chardev=link,name={LINK_NAME}").into());
        let disks = [
            ("base", self.rootfs, ",readonly=on"),
            ("root", Path::new("root.ext4"), ",discard=unmap,detect-zeroes=unmap"),
            ("home", self.home, ",discard=unmap,detect-zeroes=unmap"),
        ];
        for (id, path, options) in disks {
            add("-drive", with_path(&format!("if=none,id={id},format=raw,file="), path, options));
            add("-device", format!("virtio-blk-device,drive={id},serial={id}").into());
        }
        add("-chardev", "socket,id=share,path=share.sock".into());
        add("-device", "vhost-user-fs-device,chardev=share,tag=workspace,queue-size=1024".into());
        if self.mounts {
            add("-chardev", format!("socket,id=mounts,path={}", MachineFiles::MOUNTS_SOCKET).into());
            add(
                "-device",
                format!("vhost-user-fs-device,chardev=mounts,tag={MOUNTS_TAG},queue-size=1024").into(),
            );
        }
        if let Some(fd) = self.network_fd {
            add("-netdev", format!("stream,id=net,addr.type=fd,addr.str={fd}").into());
            add("-device", "virtio-net-device,netdev=net,mac=02:6d:73:00:00:02".into());
        }
        add("-device", "virtio-balloon-device,free-page-reporting=on".into());
        add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into());
        if self.incoming {
            add("-incoming", "defer".into());
            arguments.push("-S".into());
        }
        for flag in ["-nodefaults", "-no-user-config", "-nographic", "-no-reboot"] {
            arguments.push(flag.into());
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use sandbox_model::ByteSize;

    use super::*;

    fn command() -> QemuCommand<'static> {
        QemuCommand {
            name: "a-sandbox",
            accel: Accel::Tcg,
            resources: Resources { cpus: 2, memory: ByteSize::gib(4) },
            kernel: Path::new("/b/vmlinux"),
            initrd: Path::new("/b/initrd"),
            rootfs: Path::new("/i/rootfs.erofs"),
            home: Path::new("/v/a,readonly=on,b.ext4"),
            link_fd: 3,
            console_fd: 4,
            monitor_fd: 5,
            ram_fd: 6,
            network_fd: Some(7),
            mounts: false,
            tsc_khz: Some(2_596_138),
            incoming: false,
        }
    }

    fn text(command: &QemuCommand<'_>) -> String {
        command.arguments().iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_path_cannot_become_an_option() {
        let line = text(&command());
        assert!(line.contains("file=/v/a,,readonly=on,,b.ext4,discard=unmap"), "{line}");
    }

    #[test]
    fn the_host_is_never_opened_by_user_mode_networking() {
        let mut without = command();
        without.network_fd = None;
        for line in [text(&command()), text(&without)] {
            assert!(!line.contains("-netdev user") && !line.contains("hostfwd"), "{line}");
        }
        assert!(!text(&without).contains("netdev"));
    }

    #[test]
    fn no_more_devices_than_there_are_places() {
        for card in [true, false] {
            for mounts in [false, true] {
                let network_fd = card.then_some(5);
                let command = QemuCommand { network_fd, mounts, ..command() };
                let devices = command.arguments().iter().filter(|word| *word == "-device").count();
                // The console and the link are devices on the serial one's bus.
                assert!(devices - 2 <= 8, "{devices} with {mounts} mounts");
                let all = text(&command);
                assert_eq!(all.matches("vhost-user-fs-device").count(), 1 + usize::from(mounts));
            }
        }
    }

    #[test]
    fn memory_is_what_the_machine_process_hands_over() {
        let line = text(&command());
        assert!(line.contains("mem-path=/proc/self/fd/6,size=4096M,share=on"), "{line}");
        assert!(!line.contains("-incoming"), "{line}");
        let line = text(&QemuCommand { incoming: true, ..command() });
        assert!(line.contains("-incoming defer -S"), "{line}");
    }

    #[test]
    fn kvm_runs_the_hosts_cpu_and_needs_no_timer_help() {
        let mut kvm = command();
        kvm.accel = Accel::Kvm;
        let line = text(&kvm);
        assert!(line.contains("-accel kvm -cpu host") && !line.contains("tsc_early_khz"), "{line}");
        assert!(
            text(&command()).contains("-cpu max,-erms,-fsrm")
                && text(&command()).contains("tsc_early_khz=2596138")
        );
    }
}

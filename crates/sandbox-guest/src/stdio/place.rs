use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fs_err as fs;
use sandbox_wire::GUEST_PROTOCOL;

use super::{daemon, resident};
use crate::agent::NAME;
use crate::sys;

/// Beside the folder of guest programs, which is mounted read-only.
const FOLDER: &str = "/run/agents-sandbox-guest";
/// In it, where this program is copied into the guest's memory.
const ASIDE: &str = "copy";
/// Where the daemon of a guest says what went wrong: the host keeps it.
const CONSOLE: &str = "/dev/console";
/// A daemon that takes no link for this long hangs, and whoever waits for it is to end.
const ANSWERS_WITHIN: Duration = Duration::from_mins(1);

/// Where the daemon of this boot is found, by hosts that speak the same protocol. Its folder is its user's alone.
pub struct Place {
    folder: PathBuf,
    /// The machine is a sandbox.
    is_guest: bool,
}

impl Place {
    /// In the fixed folder of a sandbox, where every link of this protocol finds the same daemon.
    pub fn of_this_guest() -> Self {
        Self { folder: FOLDER.into(), is_guest: true }
    }

    /// On a machine that stays as it is.
    pub fn apart(folder: &Path) -> Self {
        Self { folder: folder.into(), is_guest: false }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!("guest-{GUEST_PROTOCOL}.sock"))
    }

    /// A connection to the daemon, which is started where there is none.
    pub fn connect(&self) -> io::Result<UnixStream> {
        if let Some(stream) = self.call()? {
            return Ok(stream);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        fs::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        // Another link may have been faster.
        if let Some(stream) = self.call()? {
            return Ok(stream);
        }
        self.start()?;
        self.reach()
    }

    /// `None` where nobody listens, or somebody who ends.
    fn call(&self) -> io::Result<Option<UnixStream>> {
        use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
        match self.reach() {
            Ok(stream) => Ok(Some(stream)),
            Err(error)
                if matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | UnexpectedEof) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A connection that the daemon has taken: a socket still takes them while its process dies.
    fn reach(&self) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
        stream.read_exact(&mut [0; daemon::TAKEN.len()]).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "the daemon does not answer")
            }
            _ => error,
        })?;
        stream.set_read_timeout(None)?;
        Ok(stream)
    }

    /// Whoever connects from now on waits in the socket until the daemon is there.
    fn start(&self) -> io::Result<()> {
        let mut this = PathBuf::from(resident::THIS);
        if self.is_guest {
            // The other init leaves the machine's settings as the kernel has them.
            crate::sysctls::apply();
            // A guest without that file, or a caller who may not write it, has the host's other name all the same.
            let _ = crate::host_name::add(Path::new("/etc/hosts"));
            // Without it an engine copies whole layers, and works.
            if let Err(error) = crate::boot::bind_engines(&self.folder.join("disk"))
                && let Ok(mut console) = open_console()
            {
                let _ = writeln!(console, "guest: container engines get no place on the disk: {error}");
            }
            this = resident::settle(&self.folder.join(ASIDE));
        }
        let socket = self.socket();
        // What a daemon left that was killed.
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        let mut program = Command::new(this);
        // It has nothing of this link: no folder, no variables.
        program.arg0(NAME).arg(daemon::MODE).current_dir("/").env_clear();
        program.stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(self.complaints());
        sys::outlive(&mut program);
        program.spawn().map(drop)
    }

    fn complaints(&self) -> Stdio {
        let console = if self.is_guest { open_console().ok() } else { None };
        console.map_or_else(Stdio::null, Stdio::from)
    }
}

fn open_console() -> io::Result<File> {
    File::options().append(true).open(CONSOLE)
}

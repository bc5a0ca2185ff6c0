use sandbox_model::{ExitStatus, Keep, KeptSession, SessionEnd, TermSize};
use serde::{Deserialize, Serialize};

/// The first frame on every stream to the guest program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum GuestRequest {
    /// Once per boot, on the first stream: mount everything, switch to the new root. One [`GuestReply`].
    Boot(Box<BootConfig>),
    /// Run a command. Then [`ExecInput`] frames one way, [`ExecOutput`] frames the other. The client keeps
    /// its half of the stream open until the last output frame: a half that ends, like a reset, is a client
    /// that is gone, and hangs the command up. The end of the input is [`ExecInput::Eof`].
    Exec(Box<ExecRequest>),
    /// The kept sessions, those that ended unseen included. One [`GuestSessions`].
    ListSessions,
    /// Join a kept session with a terminal of that size. Frames as for a command: first `Started`, then what
    /// brings the terminal to what the session shows, then whatever it shows. A client that goes leaves the
    /// session as it is.
    Attach { session: u32, size: TermSize },
    /// End a kept session: hang it up, and after a grace end everything on its terminal by force; or forget
    /// one that has ended. One [`GuestSessionEnd`].
    EndSession { session: u32 },
    /// Connect to a TCP port on the guest's loopback. One [`GuestReply`]; after `Ok` the stream is raw.
    Dial { port: u16 },
    /// Wait for a program that connects to [`sandbox_model::GUEST_SSH_AGENT`]. One [`GuestReply`] when there
    /// is one; after `Ok` the stream is raw. Until then the host says nothing.
    AcceptSshAgent,
    /// Set the clock, in nanoseconds since 1970. One [`GuestReply`].
    SetClock { unix_nanos: u64 },
    /// The machine is about to stand still, and its memory to be saved: bring everything to the disks, answer
    /// with one [`GuestReply`], end the link with [`ASLEEP`], and wait on the bare port for a [`WakeCall`]
    /// with this token. Only a machine that has said so may stand still: what the next host writes must not
    /// reach the old link.
    Sleep { token: [u8; TOKEN] },
    /// End every process (TERM, then KILL after the grace), sync, unmount, power off. One [`GuestReply`]
    /// just before the power goes.
    Shutdown { grace_millis: u64 },
}

/// What a guest that falls asleep writes on the bare port as its last: no header of the link begins like it,
/// so that it ends the host's side of the link.
pub const ASLEEP: [u8; 12] = [0xff; 12];

/// Length of the token that tells a wake call from whatever else is still on its way.
pub const TOKEN: usize = 16;

/// What the host writes on the bare port to a guest that slept; the next link follows at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeCall {
    /// The token of the [`GuestRequest::Sleep`] that this call ends.
    pub token: [u8; TOKEN],
    /// The time, in nanoseconds since 1970.
    pub unix_nanos: u64,
}

impl WakeCall {
    /// What a call takes on the port, in bytes.
    pub const LENGTH: usize = TOKEN + 8;

    /// The token, then the time in little-endian bytes. It is no frame: the link that carries frames comes
    /// after it.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..TOKEN].copy_from_slice(&self.token);
        bytes[TOKEN..].copy_from_slice(&self.unix_nanos.to_le_bytes());
        bytes
    }

    /// The first call with `token` in `bytes`, and how many bytes lie before its end.
    pub fn find(token: [u8; TOKEN], bytes: &[u8]) -> Option<(Self, usize)> {
        let start = bytes.windows(Self::LENGTH).position(|window| window[..TOKEN] == token)?;
        let end = start + Self::LENGTH;
        let nanos = bytes[start + TOKEN..end].try_into().ok()?;
        Some((Self { token, unix_nanos: u64::from_le_bytes(nanos) }, end))
    }
}

/// The answer to a request that asks for nothing but that something be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestReply {
    /// It is done.
    Ok,
    /// What failed, as a sentence for people.
    Failed(String),
}

/// The answer to [`GuestRequest::ListSessions`], in the order of their begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSessions(pub Vec<KeptSession>);

/// The answer to [`GuestRequest::EndSession`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestSessionEnd {
    /// It is over, in this way.
    Ended(SessionEnd),
    /// None of this number, or one that was forgotten.
    NoSuchSession,
    /// What is left, as a sentence for people.
    Failed(String),
}

/// What the guest program needs to become this sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootConfig {
    /// A name for `/etc/hostname` and `/etc/hosts`.
    pub hostname: String,
    /// The host's time, in nanoseconds since 1970: the guest's clock is set to it first of all.
    pub unix_nanos: u64,
    /// The read-only root below the overlay, and the writable disk above it.
    pub base_device: String,
    /// The type that `mount(2)` takes for it.
    pub base_fstype: String,
    /// The device of the writable disk, an ext4.
    pub root_device: String,
    /// Mounted in this order below the new root.
    pub mounts: Vec<GuestMount>,
    /// `None` leaves the guest with its loopback alone.
    pub network: Option<BootNetwork>,
    /// The environment of every command: the image's own and the sandbox's.
    pub env: Vec<(String, String)>,
    /// Name of the user that commands run as unless they ask for root.
    pub user: String,
    /// Make the socket at [`sandbox_model::GUEST_SSH_AGENT`].
    pub ssh_agent: bool,
}

/// Where everything that is mounted beside the checkout is for a moment, under its number; the guest program takes
/// the whole of it away again once each is in its place.
pub const STAGED_MOUNTS: &str = "/run/agents-sandbox-mounts";

/// One mount below the new root. `source` and `fstype` are what `mount(2)` takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestMount {
    /// A device, the tag of a shared folder, or a folder to bind.
    pub source: String,
    /// Absolute, below the new root; made where it is missing.
    pub target: String,
    /// For example `virtiofs`; `none` for a bind.
    pub fstype: String,
    /// File-system options, comma separated.
    pub options: String,
    /// Mounted so that nothing writes, not even root.
    pub readonly: bool,
}

/// Static addresses: the network engine behind the card answers neither DHCP nor router solicitations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootNetwork {
    /// `address/prefix`.
    pub ipv4: Option<String>,
    /// The next hop of the default route, an address without a prefix; `None` makes no route.
    pub ipv4_gateway: Option<String>,
    /// `address/prefix`; `None` where the guest has no IPv6.
    pub ipv6: Option<String>,
    /// Likewise, for IPv6.
    pub ipv6_gateway: Option<String>,
    /// Of the card, in bytes; 0 leaves what the card says.
    pub mtu: u16,
    /// Addresses for `/etc/resolv.conf`, in the order in which they are asked.
    pub nameservers: Vec<String>,
    /// Lines for `/etc/hosts`: address and name.
    pub hosts: Vec<(String, String)>,
    /// Certificates (PEM) to trust beside the image's own.
    pub extra_ca_pem: Option<String>,
}

/// A command for the guest; words are bytes, so that nothing is lost on the way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecRequest {
    /// The program, looked up in the PATH, and its arguments; at least one word.
    pub argv: Vec<Vec<u8>>,
    /// Over what [`BootConfig::env`] says; later entries win.
    pub env: Vec<(String, String)>,
    /// Absolute guest path.
    pub cwd: String,
    /// Name in the guest's `/etc/passwd`.
    pub user: String,
    /// Run it on a new terminal of that size; without one it gets pipes.
    pub tty: Option<TermSize>,
    /// No input, no output, and nobody waits: the command outlives the stream.
    pub detach: bool,
    /// The guest program keeps it, and its terminal, when the client goes. Only with `tty`.
    pub keep: Option<Keep>,
}

/// What a client sends to a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecInput {
    /// Bytes for its input, or typed on its terminal.
    Stdin(#[serde(with = "serde_bytes")] Vec<u8>),
    /// End of input. The command's output still flows. On a terminal this types its end-of-file key.
    Eof,
    /// The client's terminal has another size now. Nothing happens without a terminal.
    Resize(TermSize),
    /// A signal number for the command's process group.
    Signal(i32),
}

/// What a command's stream brings to its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecOutput {
    /// The command runs. For a detached one this is the last frame.
    Started {
        /// The command's process in the guest.
        pid: u32,
        /// The number of a session that is kept.
        session: Option<u32>,
    },
    /// Also everything a terminal shows.
    Stdout(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Never from a terminal, which has one stream.
    Stderr(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The last frame: all output has been sent before it.
    Exited(ExitStatus),
    /// The last frame: the command never ran. `code` is what a shell would exit with (126, 127) or 1.
    Failed {
        /// What the client ends with.
        code: i32,
        /// Why, as a sentence for people.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_call_is_found_behind_what_was_left_on_the_way() {
        let call = WakeCall { token: [7; TOKEN], unix_nanos: 1 << 60 };
        let mut bytes = vec![7; 5];
        bytes.push(1);
        bytes.extend(call.encode());
        bytes.extend(b"the next link");
        assert_eq!(WakeCall::find(call.token, &bytes), Some((call, 6 + WakeCall::LENGTH)));
        assert_eq!(WakeCall::find([8; TOKEN], &bytes), None);
        assert_eq!(WakeCall::find(call.token, &bytes[..20]), None);
    }
}

use sandbox_model::PortForward;
use serde::{Deserialize, Serialize};

/// The first and only JSON frame a client sends to a link process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum LinkRequest {
    /// Answered with `here`, and with `ready` once there is a link; then the connection is one raw stream to the
    /// guest program.
    Stream {
        /// [`crate::GUEST_PROTOCOL`] of whoever asks; the answer to another one is `refused`.
        #[serde(default)]
        guest_protocol: u32,
    },
    /// What comes from now on gets another link, if it would get this one: something does not answer over it.
    Renew {
        /// Which.
        #[serde(default)]
        generation: u64,
    },
    /// Nothing will ever answer over this link: it ends with all its streams. The connection closes after that.
    Kill {
        /// Which.
        #[serde(default)]
        generation: u64,
    },
    /// Closes ports of this computer that lead into the guest, and opens others; all, which is answered with `ports`, or
    /// none, which is `refused`.
    Ports {
        /// Those to open. One that is open stays so.
        open: Vec<PortForward>,
        /// Those to close, for new connections.
        close: Vec<PortForward>,
    },
    /// The machine was ended, or is about to be: nobody needs this process. The connection closes when it is gone.
    Leave,
}

/// What a link process answers, as JSON frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum LinkReply {
    /// Said at once, before anything that can take time.
    Here {
        /// [`crate::GUEST_PROTOCOL`] of the guest program on the other end.
        guest_protocol: u32,
        /// The program's version that the link process runs.
        version: String,
    },
    /// From here on the connection is the stream.
    Ready {
        /// Of the link that it is a stream of; no two have the same.
        #[serde(default)]
        generation: u64,
    },
    /// They are as they were to be.
    Ports,
    /// There is no way into the guest from here, or a port cannot be had.
    Refused {
        /// For the log, and of a port for people.
        reason: String,
    },
}

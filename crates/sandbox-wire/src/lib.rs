//! Messages between the program, the keeper, the machine process and the guest program.
//!
//! ```text
//! program ──(keeper.sock, JSON frames)──► keeper
//! program ──(machine.sock: one JSON frame, then raw)──► machine process ──(one yamux stream each)──► guest program
//! program ──(link.sock: the same)─────────────────────► link process ─────(the same)───────────────► guest program
//! ```
//!
//! A frame is a little-endian `u32` length and that many bytes, at most [`MAX_FRAME`]. Frames to the
//! keeper and the first exchange with the machine process are JSON, so that two versions of the program
//! can at least understand each other's refusal. Frames to the guest are postcard: the guest program is
//! always of the machine process's own version, and [`GUEST_PROTOCOL`] in the machine's first reply tells
//! a newer program that it must not speak to an older guest. Where there is no machine process, the guest program
//! listens where the protocol's number says, and each protocol has one of its own.

mod frame;
mod guest;
mod keeper;
mod link;
mod machine;

pub use frame::{FrameError, MAX_FRAME, decode, encode, read_json, read_message, write_json, write_message};
pub use guest::{
    ASLEEP, BootConfig, BootNetwork, ExecInput, ExecOutput, ExecRequest, GuestMount, GuestReply,
    GuestRequest, GuestSessionEnd, GuestSessions, STAGED_MOUNTS, TOKEN, WakeCall,
};
pub use keeper::{ClientInfo, KeeperReply, KeeperRequest, KeeperStatus, SshAgentOffer};
pub use link::{LinkReply, LinkRequest};
pub use machine::{Accel, MachineReply, MachineRequest, MachineState};

/// Raised whenever [`GuestRequest`] or anything inside it changes shape.
pub const GUEST_PROTOCOL: u32 = 5;

use sandbox_model::{PortForward, SecretValues, Status};
use serde::{Deserialize, Serialize};

// A running machine process may be of another version than the program that asks it: what was once mandatory stays in
// every reply, and what is new may be missing.

/// The first and only JSON frame a client sends to a machine process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum MachineRequest {
    /// Answered once the guest is ready; then the connection is one raw stream to the guest program.
    Guest,
    /// Answered at once; the connection then counts as a client until it closes.
    Hold,
    /// Answered once with the state.
    State,
    /// Graceful power-off: answered with `stopped` when the machine is gone, or the connection closes.
    /// With a boot id it is meant for that boot alone, and any other refuses.
    Stop {
        /// How long the guest may take to end, in milliseconds; then the power goes.
        grace_millis: u64,
        /// `None` means whichever boot it is.
        #[serde(default)]
        boot_id: Option<String>,
        /// Save the memory instead, where this boot can.
        #[serde(default)]
        sleep: bool,
    },
    /// Power-off now.
    Kill,
    /// Close ports of the host that lead into the guest, and open others, all or none.
    Ports { open: Vec<PortForward>, close: Vec<PortForward> },
    /// Put in these values of secrets from now on.
    Secrets { values: SecretValues },
}

/// What a machine process answers, as one JSON frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum MachineReply {
    /// The answer to [`MachineRequest::Guest`] and [`MachineRequest::Hold`].
    Ready {
        /// [`crate::GUEST_PROTOCOL`] of the machine process and its guest.
        guest_protocol: u32,
        /// The program's version that the machine process runs.
        version: String,
        /// Sent for earlier versions, which take no reply without it.
        #[serde(default)]
        boot_id: String,
    },
    /// The answer to [`MachineRequest::State`].
    State(MachineState),
    /// The ports are as they were asked for.
    Ports,
    /// The network bridge has the values.
    Secrets,
    /// The power is off; `forced` when the guest did not end within the grace.
    Stopped {
        /// What was not on the disks is lost.
        forced: bool,
        /// Its memory is saved.
        #[serde(default)]
        asleep: bool,
        /// Why it is not, where it was asked for.
        #[serde(default)]
        not_asleep: Option<String>,
    },
    /// The request cannot be served now: booting failed, or the machine is stopping.
    Refused {
        /// For people, and for the log.
        reason: String,
    },
}

/// What a machine process says of itself. It lives, so that the status is one of those that have a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MachineState {
    /// Starting, running or draining.
    pub status: Status,
    /// Clients connected now, this one not counted. Sent for earlier versions, which take no state without it.
    #[serde(default)]
    pub clients: u32,
    /// Another for every start, a wake included.
    pub boot_id: String,
    /// The same until the guest boots again; none before it is up.
    #[serde(default)]
    pub guest_boot: Option<String>,
    /// The one in use.
    pub accel: Accel,
}

/// What runs a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// The processor itself, through the host's `/dev/kvm`.
    Kvm,
    /// QEMU's emulation, in software: works everywhere, many times slower.
    Tcg,
}

impl Accel {
    /// The word for it in records, and the name of QEMU's accelerator.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As versions send them that leave out what nobody reads any more.
    #[test]
    fn replies_are_read_without_what_is_sent_for_earlier_versions() {
        let ready = r#"{ "reply": "ready", "guest_protocol": 5, "version": "1" }"#;
        let ready: MachineReply = serde_json::from_str(ready).unwrap();
        assert!(matches!(ready, MachineReply::Ready { guest_protocol: 5, .. }), "{ready:?}");
        let state = r#"{ "reply": "state", "status": "running", "boot-id": "b", "accel": "kvm" }"#;
        let state: MachineReply = serde_json::from_str(state).unwrap();
        let MachineReply::State(state) = state else { panic!("{state:?}") };
        assert_eq!((state.status, state.boot_id.as_str()), (Status::Running, "b"));
    }
}

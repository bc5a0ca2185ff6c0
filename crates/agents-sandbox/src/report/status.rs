use sandbox_model::Status;

use super::Tone;

/// A status as tables show it, in the tone that the documentation gives it.
pub fn status_cell(status: &Status) -> (String, Tone) {
    let tone = match status {
        Status::Running => Tone::Good,
        Status::Created | Status::Stopped => Tone::Dim,
        Status::Starting | Status::Draining | Status::Paused => Tone::Passing,
        Status::Crashed => Tone::Bad,
        Status::Unknown(_) => Tone::Plain,
    };
    (status.to_string(), tone)
}

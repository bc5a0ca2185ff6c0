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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_tone() {
        for (status, tone) in [
            (Status::Running, Tone::Good),
            (Status::Created, Tone::Dim),
            (Status::Stopped, Tone::Dim),
            (Status::Starting, Tone::Passing),
            (Status::Paused, Tone::Passing),
            (Status::Draining, Tone::Passing),
            (Status::Crashed, Tone::Bad),
            (Status::Unknown("hibernating".into()), Tone::Plain),
        ] {
            assert_eq!(status_cell(&status), (status.to_string(), tone));
        }
    }
}

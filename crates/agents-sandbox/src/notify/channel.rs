//! The ways to a person. What fails is not said: the terminal is the agent's.

use std::io::Write;
use std::process::{Command, Stdio};

/// By whichever program speaks with the desktop here.
pub fn desktop(title: &str, text: &str, urgent: bool) {
    let urgency = if urgent { "critical" } else { "normal" };
    let sent = run(
        "notify-send",
        &["--app-name=agents-sandbox", &format!("--urgency={urgency}"), "--", title, text],
    );
    if !sent {
        let byte = if urgent { "<byte 2>" } else { "<byte 1>" };
        run(
            "gdbus",
            &[
                "call",
                "--session",
                "--dest=org.freedesktop.Notifications",
                "--object-path=/org/freedesktop/Notifications",
                "--method=org.freedesktop.Notifications.Notify",
                "agents-sandbox",
                "0",
                "",
                title,
                text,
                "[]",
                &format!("{{'urgency': {byte}}}"),
                "-1",
            ],
        );
    }
}

/// The desktop's own sound for a message; the bell where nothing plays it.
pub fn sound() {
    const FILE: &str = "/usr/share/sounds/freedesktop/stereo/message.oga";
    let played = run("canberra-gtk-play", &["--id=message"])
        || ["pw-play", "paplay", "ogg123"].into_iter().any(|player| run(player, &[FILE]));
    if !played {
        bell();
    }
}

/// One byte that terminals take anywhere.
pub fn bell() {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(b"\x07").and_then(|()| stdout.flush());
}

fn run(program: &str, words: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

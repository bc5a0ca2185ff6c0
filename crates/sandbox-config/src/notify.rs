use crate::error::Refusal;
use crate::origin::{Origin, Value};
use crate::settings::Settings;
use crate::suggest::closest;
use crate::words::NotifyAudio;

const MODES: [&str; 6] = ["on", "off", "desktop", "audio", "bell", "sound"];

/// Overrides the channels of notifications, and leaves alone what they are sent for.
pub(crate) fn apply(settings: &mut Settings, mode: &str, origin: &Origin) -> Result<(), Refusal> {
    let (desktop, audible) = match mode.trim().to_ascii_lowercase().as_str() {
        // A flag without a value is `on`.
        "on" | "" => (true, true),
        "off" => (false, false),
        "desktop" => (true, false),
        "audio" => (false, true),
        "bell" | "sound" => {
            let audio = if mode.trim().eq_ignore_ascii_case("bell") {
                NotifyAudio::Bell
            } else {
                NotifyAudio::System
            };
            settings.notify_desktop = Value { value: false, origin: origin.clone() };
            settings.notify_audio = Value { value: audio, origin: origin.clone() };
            return Ok(());
        }
        _ => {
            let refusal = Refusal::new(0..0, format!("`{mode}` is not one of {}", MODES.join(", ")));
            return Err(match closest(mode, MODES.into_iter()) {
                Some(near) => refusal.help(format!("did you mean `{near}`?")),
                None => refusal,
            });
        }
    };
    let audio = match (audible, settings.notify_audio.value) {
        (false, _) => NotifyAudio::Off,
        (true, NotifyAudio::Off) => NotifyAudio::System,
        (true, chosen) => chosen,
    };
    settings.notify_desktop = Value { value: desktop, origin: origin.clone() };
    settings.notify_audio = Value { value: audio, origin: origin.clone() };
    Ok(())
}

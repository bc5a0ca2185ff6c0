use std::path::PathBuf;
use std::time::Duration;

use sandbox_model::{AgentName, ByteSize, NetworkProfile, format_duration};
use serde_json::Value as Json;

use crate::base::ImageBase;
use crate::proxy::ProxySetting;
use crate::words::Word;

/// How a setting is shown to people and to programs. What is shown can be written in a file again, but for a
/// proxy's password.
pub(crate) trait Show {
    fn show(&self) -> String;

    fn json(&self) -> Json {
        Json::String(self.show())
    }
}

impl Show for bool {
    fn show(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        Json::Bool(*self)
    }
}

impl Show for u8 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        Json::from(*self)
    }
}

impl Show for u32 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> Json {
        Json::from(*self)
    }
}

impl Show for Duration {
    fn show(&self) -> String {
        format_duration(*self)
    }
}

impl Show for Option<ByteSize> {
    fn show(&self) -> String {
        self.map(|size| size.to_string()).unwrap_or_default()
    }
}

impl Show for Option<String> {
    fn show(&self) -> String {
        self.clone().unwrap_or_default()
    }
}

impl Show for Option<PathBuf> {
    fn show(&self) -> String {
        self.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

impl Show for Vec<String> {
    fn show(&self) -> String {
        self.join(", ")
    }

    fn json(&self) -> Json {
        Json::from(self.as_slice())
    }
}

macro_rules! show_by_display {
    ($($type:ty),+) => {$(
        impl Show for $type {
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

show_by_display!(ByteSize, AgentName, NetworkProfile, ImageBase, ProxySetting);

impl<T: Word> Show for T {
    fn show(&self) -> String {
        self.word().into()
    }
}

//! Settings whose values are words of a fixed set.

/// One of a fixed set of words.
pub trait Word: Sized + Copy + PartialEq + 'static {
    /// Each with its value, in the order in which messages list them.
    const WORDS: &'static [(&'static str, Self)];

    /// As it is written in files, and shown.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_doc])* $variant),+ }

        impl Word for $type {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    )+};
}

words! {
    /// The least important messages that are shown.
    LogLevel { Error = "error", Warning = "warning", Info = "info", Verbose = "verbose" }

    /// What a newer version of this program leads to.
    UpgradeMode { Prompt = "prompt", Notify = "notify", Auto = "auto", AutoExit = "auto-exit" }

    /// What a newer version of the agent leads to.
    AgentUpdates {
        /// A question at the next start, once for each version.
        Prompt = "prompt",
        /// A line at the next start, once for each version.
        Notify = "notify",
        /// Nobody asks for newer ones.
        Off = "off",
    }

    /// How a notification sounds.
    NotifyAudio { System = "system", Bell = "bell", Off = "off" }

    /// Which program builds images.
    ImageEngine {
        /// The first that works, in the order below.
        Auto = "auto",
        Docker = "docker",
        Podman = "podman",
        Buildah = "buildah",
    }

    /// Whether the host's CA certificates are trusted in the build and in the guest.
    HostCa {
        /// Where the host has some of its own.
        Auto = "auto",
        On = "on",
        Off = "off",
    }

    /// What runs sandboxes.
    RuntimeChoice {
        /// microsandbox where hardware virtualization works, QEMU elsewhere.
        Auto = "auto",
        Microsandbox = "microsandbox",
        Qemu = "qemu",
    }

    /// How QEMU runs the guest's instructions.
    QemuAccel {
        /// KVM where a boot proves it, emulation elsewhere.
        Auto = "auto",
        Kvm = "kvm",
        Tcg = "tcg",
    }

    /// What happens to a sandbox that nobody uses.
    AutoStop {
        /// Its memory is saved where the runtime can, so that the next run goes on.
        Sleep = "sleep",
        /// It is shut down.
        Stop = "stop",
    }
}

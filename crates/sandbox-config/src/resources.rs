use sandbox_model::Resources;

use crate::settings::Settings;

impl Settings {
    /// The machine's size, where `host_cpus` is what "all processors" means.
    pub fn resources(&self, host_cpus: u32) -> Resources {
        let cpus = match self.cpus.value {
            0 => host_cpus.max(1),
            count => u32::from(count),
        };
        Resources { cpus, memory: self.memory.value }
    }
}

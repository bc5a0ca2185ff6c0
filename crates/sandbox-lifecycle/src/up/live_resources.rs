//! CPUs and more memory reach a running sandbox without a start, where the runtime can.

use sandbox_model::{Resources, SandboxSpec, Status};
use sandbox_runtime::SandboxInfo;

use crate::{Context, Result, UpRequest, drift};

/// Gives what runs on the wanted CPUs and memory, once that is decided; which of the `pending` settings still are. Where
/// the runtime cannot do it now, for example because it is more than the boot allows, it counts from the next start, and
/// whoever may have changed it hears why: other verbs take the sandbox as it is.
pub fn settle(
    context: &Context<'_>,
    request: &UpRequest,
    info: &mut SandboxInfo,
    wanted: &SandboxSpec,
    pending: &[&'static str],
) -> Result<Vec<&'static str>> {
    let mut pending = pending.to_vec();
    let Some(resources) = reachable(info.spec.resources, wanted.resources) else { return Ok(pending) };
    let name = &info.spec.name;
    if info.status != Status::Running || !context.runtime.capabilities_for(name)?.live_resources {
        return Ok(pending);
    }
    let what = format!("{} CPUs, {} of memory", resources.cpus, resources.memory);
    match context.runtime.modify(name, resources) {
        Ok(()) => {
            context.reporter.info(&format!("from now on, without a restart: {what}"));
            info.spec.resources = resources;
            let left = drift(&info.spec, wanted);
            pending.retain(|setting| left.iter().any(|change| change.setting == *setting));
        }
        Err(error) => {
            let text = format!("it goes on without {what}: {error}");
            if request.verb == "run" {
                context.reporter.warning(&text);
            } else {
                context.reporter.verbose(&text);
            }
        }
    }
    Ok(pending)
}

/// What disturbs nobody: less memory would end programs that others use, and waits for the next start.
fn reachable(have: Resources, want: Resources) -> Option<Resources> {
    let resources = Resources { cpus: want.cpus, memory: have.memory.max(want.memory) };
    (resources != have).then_some(resources)
}

#[cfg(test)]
mod tests {
    use sandbox_model::ByteSize;

    use super::*;

    #[test]
    fn memory_only_grows_while_it_runs() {
        let resources = |cpus, gib| Resources { cpus, memory: ByteSize::gib(gib) };
        let have = resources(2, 4);
        assert_eq!(reachable(have, have), None);
        assert_eq!(reachable(have, resources(2, 2)), None);
        assert_eq!(reachable(have, resources(1, 2)), Some(resources(1, 4)));
        assert_eq!(reachable(have, resources(4, 8)), Some(resources(4, 8)));
    }
}

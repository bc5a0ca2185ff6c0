//! The Docker engine inside the guest.

use std::time::{Duration, Instant};

use sandbox_model::{ExecSpec, ExecUser};

use crate::{Context, LifecycleError, Result, Up, UpRequest};

const DEADLINE: Duration = Duration::from_secs(30);
/// Measured without hardware virtualization: 13 s on a busy machine.
const EMULATED_DEADLINE: Duration = Duration::from_mins(2);

/// Starts dockerd unless one runs, and waits until it answers; `$1` is for how many seconds.
///
/// The first line is all that a running engine costs. Clients take turns, so that none starts a second one,
/// and an engine that somebody else started is waited for like our own: nothing is ended here.
const ENSURE: &str = r#"ready=/run/agents-sandbox-docker.ready log=/var/log/dockerd.log
lives() { read -r pid 2>/dev/null <"$1" && grep -qa dockerd "/proc/$pid/cmdline" 2>/dev/null; }
[ -S /run/docker.sock ] && lives "$ready" && exit 0
exec 9>/run/agents-sandbox-docker.lock
flock 9
[ -S /run/docker.sock ] && lives "$ready" && exit 0
if ! lives /run/docker.pid; then
    command -v dockerd >/dev/null || { echo "the image has no dockerd" >&2; exit 1; }
    setsid dockerd --host unix:///run/docker.sock >"$log" 2>&1 </dev/null 9>&- &
    pid=$!
fi
ask() {
    if command -v curl >/dev/null; then curl -fs -m 2 --unix-socket /run/docker.sock http://docker/_ping; else docker version; fi
}
end=$(($(date +%s) + $1))
until ask >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || { echo "it ended by itself" >&2; tail -n 20 "$log" >&2; exit 1; }
    [ "$(date +%s)" -lt "$end" ] || { echo "it does not answer" >&2; tail -n 20 "$log" >&2; exit 1; }
    sleep 0.2
done
echo "$pid" >"$ready""#;

/// Makes sure that the sandbox's Docker engine answers, where the settings or the project's image ask for
/// one. Blocks for up to 30 seconds, without hardware virtualization for up to two minutes.
pub fn ensure_docker(context: &Context<'_>, request: &UpRequest, up: &Up) -> Result<()> {
    if !request.image.wants_docker() {
        return Ok(());
    }
    let deadline = if up.emulated { EMULATED_DEADLINE } else { DEADLINE };
    let seconds = deadline.as_secs().to_string();
    let mut spec = ExecSpec::new(["sh", "-c", ENSURE, "agents-sandbox", &seconds]);
    spec.user = ExecUser::Root;
    spec.cwd = Some("/".into());
    let step = context.reporter.begin("starting docker in the sandbox");
    let begin = Instant::now();
    // Another client's start may come before this one's.
    let done = context.runtime.exec(&up.name, &spec)?.collect_within("the start of docker", deadline * 3)?;
    if done.status.success() {
        step.finish(None);
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let (problem, log) = said.trim_end().split_once('\n').unwrap_or((said.trim_end(), ""));
    Err(LifecycleError::Docker {
        seconds: begin.elapsed().as_secs(),
        problem: problem.into(),
        log: log.into(),
    })
}

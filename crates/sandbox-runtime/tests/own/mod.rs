//! What only the fake promises: several processes see the same sandboxes, and trouble comes on request.

use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use sandbox_model::{ByteSize, ExecSpec, NetworkPolicy, Resources, SandboxSpec, Status, WorkspaceMount};
use sandbox_runtime::contract::{Failure, Harness, all_cases, cases};
use sandbox_runtime::fake::{FakeRuntime, Faults};
use sandbox_runtime::{Runtime, RuntimeError, StopOutcome};

use crate::{FakeHarness, HARNESS};

type Outcome = Result<(), Box<dyn std::error::Error>>;

type Test = (&'static str, fn() -> Outcome);

const STEP: &str = "FAKE_TEST_STEP";

pub(crate) fn trials() -> Vec<Trial> {
    let own: [Test; 8] = [
        ("own_other_processes_see_the_same_sandbox", other_processes),
        ("own_a_killed_program_hangs_up_its_commands", killed_program),
        ("own_a_starter_that_dies_leaves_no_riddle", dead_starter),
        ("own_a_starter_may_die_at_any_moment", dead_starter_anywhere),
        ("own_boot_fails_on_request", boot_fails),
        ("own_starting_and_draining_are_seen", slow_boot_and_stop),
        ("own_a_command_that_ignores_the_end_is_forced", forced),
        ("own_which_cases_are_left_out", left_out),
    ];
    own.into_iter()
        .map(|(name, run)| Trial::test(name, move || run().map_err(|error| Failed::from(error.to_string()))))
        .collect()
}

/// This program again, for one step on the same directory.
fn spawn(step: &str, dir: &std::path::Path, name: &str) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).env(STEP, step).arg(dir).arg(name).stdout(Stdio::piped()).spawn()
}

pub(crate) fn other_process() -> Option<ExitCode> {
    let step = std::env::var(STEP).ok()?;
    let mut args = std::env::args().skip(1);
    let (dir, name) = (args.next()?, args.next()?.parse().ok()?);
    let runtime = FakeRuntime::open(dir).ok()?;
    let result = match step.as_str() {
        "start" => runtime.start(&name),
        "exec" => runtime
            .exec(&name, &ExecSpec::new(["sh", "-c", "echo $$ > pid; exec sleep 1000"]))
            .and_then(|mut session| {
                session.output.next()?;
                Ok(())
            }),
        "stop" => runtime.stop(&name, Duration::from_secs(5)).map(drop),
        _ => return Some(ExitCode::from(99)),
    };
    Some(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Own {
    harness: FakeHarness,
    spec: SandboxSpec,
}

impl Own {
    /// A created sandbox in a directory that no other test uses.
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let harness = FakeHarness::new()?;
        let image = harness.image().clone();
        let mut archive = std::fs::File::open(&image.archive)?;
        harness.runtime.load_image(&image.reference, &image.digest, &mut archive, &mut |_, _| {})?;
        let spec = SandboxSpec {
            name: "own".parse()?,
            image: image.reference,
            image_digest: image.digest,
            resources: Resources { cpus: 1, memory: ByteSize::mib(64) },
            root_disk: ByteSize::gib(1),
            tmp: ByteSize::mib(64),
            home: harness.home_disk()?,
            workspace: WorkspaceMount {
                source: harness.workspace_dir()?,
                quota: ByteSize::mib(64),
                host_uid: 0,
                host_gid: 0,
                guest_uid: 0,
                guest_gid: 0,
            },
            env: std::collections::BTreeMap::new(),
            network: NetworkPolicy::default(),
            ssh_agent: false,
            labels: std::collections::BTreeMap::new(),
            mounts: Vec::new(),
            ports: Vec::new(),
            secrets: Vec::new(),
            idle_timeout: Duration::from_mins(1),
            sleep: false,
        };
        harness.runtime.create(&spec)?;
        Ok(Self { harness, spec })
    }

    fn runtime(&self) -> &FakeRuntime {
        &self.harness.runtime
    }

    fn status(&self) -> Result<Option<Status>, RuntimeError> {
        Ok(self.runtime().inspect(&self.spec.name)?.map(|info| info.status))
    }

    fn other(&self, step: &str) -> std::io::Result<Child> {
        spawn(step, &self.harness.dir.path().join("fake"), self.spec.name.as_str())
    }

    fn wait_for(&self, wanted: &Status) -> Outcome {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.status()?.as_ref() != Some(wanted) {
            if Instant::now() > deadline {
                return Err(format!("still {:?}, not {wanted}", self.status()?).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.runtime().set_faults(&Faults::default());
        let _ = self.runtime().kill(&self.spec.name);
    }
}

fn other_processes() -> Outcome {
    let own = Own::new()?;
    let began = Instant::now();
    assert!(own.other("start")?.wait()?.success());
    assert_eq!(own.status()?, Some(Status::Running), "started by a process that has ended");
    let done = own.runtime().exec(&own.spec.name, &ExecSpec::new(["echo", "here"]))?.collect()?;
    assert_eq!(done.stdout, b"here\n");
    assert!(own.other("stop")?.wait()?.success());
    assert_eq!(own.status()?, Some(Status::Stopped), "stopped by another process");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    Ok(())
}

fn killed_program() -> Outcome {
    let own = Own::new()?;
    own.runtime().start(&own.spec.name)?;
    let mut program = own.other("exec")?;
    let path = own.spec.workspace.source.join("pid");
    let deadline = Instant::now() + Duration::from_secs(20);
    let pid = loop {
        match std::fs::read_to_string(&path) {
            Ok(pid) if pid.ends_with('\n') => break pid.trim().to_string(),
            _ if Instant::now() > deadline => return Err("the command never ran".into()),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let command = std::path::PathBuf::from(format!("/proc/{pid}/cmdline"));
    while !std::fs::read(&command)?.starts_with(b"sleep") {
        assert!(Instant::now() < deadline, "the shell never became a sleep");
    }
    program.kill()?;
    program.wait()?;
    while std::fs::read(&command).is_ok_and(|line| line.starts_with(b"sleep")) {
        assert!(Instant::now() < deadline, "the command outlives the program that ran it");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(own.status()?, Some(Status::Running), "the sandbox itself stays");
    Ok(())
}

fn dead_starter() -> Outcome {
    let own = Own::new()?;
    own.runtime().set_faults(&Faults { boot_millis: 60_000, ..Faults::default() })?;
    let mut starter = own.other("start")?;
    own.wait_for(&Status::Starting)?;
    while own.runtime().machine_pid(&own.spec.name)?.is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    starter.kill()?;
    starter.wait()?;
    own.wait_for(&Status::Crashed)?;
    own.runtime().set_faults(&Faults::default())?;
    own.runtime().start(&own.spec.name)?;
    assert_eq!(own.status()?, Some(Status::Running));
    Ok(())
}

/// Whenever it dies: what is left is repaired by the next start.
fn dead_starter_anywhere() -> Outcome {
    let own = Own::new()?;
    for micros in (0..12_000).step_by(400) {
        let mut starter = own.other("start")?;
        std::thread::sleep(Duration::from_micros(micros));
        starter.kill()?;
        starter.wait()?;
        own.runtime().start(&own.spec.name)?;
        assert_eq!(own.status()?, Some(Status::Running), "killed after {micros} µs");
        own.runtime().stop(&own.spec.name, Duration::from_secs(1))?;
        assert_eq!(own.status()?, Some(Status::Stopped), "killed after {micros} µs");
    }
    Ok(())
}

fn boot_fails() -> Outcome {
    let own = Own::new()?;
    let faults = Faults { boot_fails: Some("no root device".into()), ..Faults::default() };
    own.runtime().set_faults(&faults)?;
    match own.runtime().start(&own.spec.name) {
        Err(RuntimeError::BootFailed { problem, log, .. }) => {
            assert_eq!(problem, "no root device");
            assert!(log.contains("no root device"), "{log}");
        }
        other => return Err(format!("{other:?}").into()),
    }
    let info = own.runtime().inspect(&own.spec.name)?.ok_or("gone")?;
    assert_eq!((info.status, info.problem.as_deref()), (Status::Crashed, Some("no root device")));
    own.runtime().set_faults(&Faults::default())?;
    own.runtime().start(&own.spec.name)?;
    Ok(())
}

fn slow_boot_and_stop() -> Outcome {
    let own = Own::new()?;
    own.runtime().set_faults(&Faults { boot_millis: 300, stop_millis: 300, ..Faults::default() })?;
    let mut starter = own.other("start")?;
    own.wait_for(&Status::Starting)?;
    own.wait_for(&Status::Running)?;
    assert!(starter.wait()?.success());
    let mut stopper = own.other("stop")?;
    own.wait_for(&Status::Draining)?;
    own.wait_for(&Status::Stopped)?;
    assert!(stopper.wait()?.success());
    Ok(())
}

fn forced() -> Outcome {
    let own = Own::new()?;
    own.runtime().start(&own.spec.name)?;
    let stubborn = ["sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done"];
    let mut session = own.runtime().exec(&own.spec.name, &ExecSpec::new(stubborn))?;
    session.output.next()?;
    let outcome = own.runtime().stop(&own.spec.name, Duration::from_millis(200))?;
    assert_eq!(outcome, StopOutcome::Forced);
    assert_eq!(own.status()?, Some(Status::Stopped));
    Ok(())
}

/// Nothing is left out but what the fake says it cannot do.
fn left_out() -> Outcome {
    let run: Vec<&str> = cases(&*HARNESS).iter().map(|case| case.name).collect();
    let out: Vec<&str> =
        all_cases().iter().map(|case| case.name).filter(|name| !run.contains(name)).collect();
    let wanted = [
        "exec_users",
        "a_kept_command_goes_on_without_its_client",
        "a_kept_command_has_several_clients",
        "an_end_that_nobody_saw_is_kept",
        "a_kept_command_that_ignores_its_end_is_killed",
        "a_command_is_kept_on_a_terminal_only",
        "a_kept_command_sleeps_and_wakes",
        "workspace_quota",
        "tmp_is_a_tmpfs_of_its_size",
        "root_disk_outlives_stop_but_not_remove",
        "ports_open_and_close_while_it_runs",
    ];
    if out != wanted {
        return Err(Failure(format!("left out: {out:?}")).0.into());
    }
    Ok(())
}

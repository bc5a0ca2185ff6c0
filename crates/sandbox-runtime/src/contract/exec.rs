use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use sandbox_model::{ExecSpec, ExecUser, ExitStatus, GUEST_HOME};

use super::check::{check, check_eq, fail};
use super::sandbox::{Sandbox, text};
use super::{Case, Harness, Outcome, Power};
use crate::RuntimeError;

pub(super) const CASES: &[Case] = &[
    Case::core("exec_streams_are_separate", streams).borrowing(),
    Case::core("exec_exit_codes_and_signals", exit_codes).borrowing(),
    Case::core("exec_what_cannot_be_run", cannot_be_run).borrowing(),
    Case::core("exec_words_arrive_unchanged", words).borrowing(),
    Case::core("exec_environment", environment),
    Case::core("exec_working_directory", working_directory).borrowing(),
    Case::with(Power::GuestRoot, "exec_users", users).borrowing(),
    Case::core("exec_twenty_at_once", twenty).borrowing(),
    Case::core("exec_hang_up_ends_the_command", hang_up).borrowing(),
    Case::core("exec_detached_survives_its_session", detached),
];

fn streams(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let done = sandbox.try_sh("echo one; echo two >&2; printf three; printf four >&2")?;
    check_eq!(text(&done.stdout), "one\nthree", "stdout");
    check_eq!(text(&done.stderr), "two\nfour", "stderr");
    check_eq!(done.status, ExitStatus::SUCCESS, "status");
    // Output just before the end is not lost, however short the command's life.
    for round in 0..50 {
        let done = sandbox.exec(&ExecSpec::new(["echo", "last words"]))?;
        check_eq!(text(&done.stdout), "last words\n", "output in round {round}");
    }
    Ok(())
}

fn exit_codes(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    for code in [0, 1, 7, 126, 127, 128, 255] {
        let done = sandbox.try_sh(&format!("exit {code}"))?;
        check_eq!(done.status, ExitStatus::Code(code), "exit {code}");
    }
    for signal in [9, 15] {
        let done = sandbox.try_sh(&format!("kill -{signal} $$"))?;
        check_eq!(done.status, ExitStatus::Signal(signal), "signal {signal}");
    }
    Ok(())
}

fn cannot_be_run(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    std::fs::write(sandbox.host("plain"), "no program")?;
    for (program, wanted) in [("no-such-program", 127), ("/no/such/program", 127), ("./plain", 126)] {
        match sandbox.try_exec(&ExecSpec::new([program]))? {
            Err(RuntimeError::ExecFailed { code, .. }) => check_eq!(code, wanted, "code of {program}"),
            other => fail!("{program}: {other:?}"),
        }
    }
    match sandbox.try_exec(&ExecSpec::new([""; 0]))? {
        Err(RuntimeError::ExecFailed { .. }) => {}
        other => fail!("a command of no words: {other:?}"),
    }
    check_eq!(sandbox.sh("echo up")?, "up", "a command after the failures");
    Ok(())
}

fn words(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let words: Vec<OsString> = vec![
        "two words".into(),
        "it's \"quoted\" `so` \\n".into(),
        "line\nline\n".into(),
        "".into(),
        "$HOME ${HOME} * ? ~ ; & | > /dev/null #".into(),
        "--option=value".into(),
        "-".into(),
        "\t ".into(),
        "grüße 日本".into(),
        OsString::from_vec(vec![b'x', 0xff, 0xfe]),
        "".into(),
    ];
    let mut argv: Vec<OsString> =
        vec!["perl".into(), "-e".into(), "print map { \"$_\\0\" } @ARGV".into(), "--".into()];
    argv.extend(words.iter().cloned());
    let done = sandbox.exec(&ExecSpec::new(argv))?;
    let wanted: Vec<u8> = words.iter().flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect();
    check_eq!(text(&done.stdout), text(&wanted), "words");
    check!(done.stdout == wanted, "bytes that are no text were changed");
    // A long command line, well below what a kernel takes.
    let long = "x".repeat(100_000);
    let done = sandbox.exec(&ExecSpec::new(["echo", &long]))?;
    check_eq!(done.stdout.len(), 100_001, "length of a long word");
    Ok(())
}

fn environment(harness: &dyn Harness) -> Outcome {
    let mut sandbox = Sandbox::plan(harness)?;
    sandbox.spec.env.insert("FROM_SPEC".into(), "of the spec".into());
    sandbox.spec.env.insert("BOTH".into(), "of the spec".into());
    sandbox.create()?;
    sandbox.runtime().start(sandbox.name())?;
    let mut spec = ExecSpec::new(["perl", "-e", "print map { \"$_=$ENV{$_}\\0\" } keys %ENV"]);
    spec.env = vec![
        ("BOTH".into(), "first".into()),
        ("BOTH".into(), "of the command".into()),
        ("ODD".into(), "a = 'b'\n\"c\" $HOME ".into()),
        ("EMPTY".into(), String::new()),
    ];
    let done = sandbox.exec(&spec)?;
    let seen = text(&done.stdout);
    let seen: Vec<&str> = seen.split('\0').collect();
    for wanted in ["FROM_SPEC=of the spec", "BOTH=of the command", "ODD=a = 'b'\n\"c\" $HOME ", "EMPTY="] {
        check!(seen.contains(&wanted), "{wanted:?} is not in {seen:?}");
    }
    for (key, value) in
        harness.runtime().inspect_image(&sandbox.spec.image)?.into_iter().flat_map(|image| image.env)
    {
        if !matches!(key.as_str(), "PATH" | "HOME") {
            let wanted = format!("{key}={value}");
            check!(seen.contains(&wanted.as_str()), "the image's {wanted:?} is not in {seen:?}");
        }
    }
    for name in ["PATH=", "HOME=", "USER="] {
        check!(seen.iter().any(|entry| entry.starts_with(name)), "no {name} in {seen:?}");
    }
    Ok(())
}

fn working_directory(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    std::fs::create_dir_all(sandbox.host("some dir/deeper"))?;
    std::fs::write(sandbox.host("mark"), "top")?;
    std::fs::write(sandbox.host("some dir/deeper/mark"), "deep")?;
    let cat = |cwd: Option<&str>| -> Outcome<_> {
        let mut spec = ExecSpec::new(["cat", "mark"]);
        spec.cwd = cwd.map(Into::into);
        Ok(text(&sandbox.exec(&spec)?.stdout))
    };
    check_eq!(cat(None)?, "top", "without one");
    check_eq!(cat(Some("/workspace"))?, "top", "/workspace");
    check_eq!(cat(Some("/workspace/some dir/deeper"))?, "deep", "a folder in it");
    sandbox.sh("echo home > \"$HOME/mark\"")?;
    check_eq!(cat(Some(GUEST_HOME))?, "home\n", "the home");
    let mut spec = ExecSpec::new(["pwd"]);
    spec.cwd = Some("/".into());
    check_eq!(text(&sandbox.exec(&spec)?.stdout), "/\n", "the root");
    for bad in ["/workspace/none", "/workspace/mark"] {
        let mut spec = ExecSpec::new(["true"]);
        spec.cwd = Some(bad.into());
        match sandbox.try_exec(&spec)? {
            Err(RuntimeError::ExecFailed { .. }) => {}
            other => fail!("{bad} as working directory: {other:?}"),
        }
    }
    Ok(())
}

fn users(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let ask = |user, script: &str| -> Outcome<_> {
        let mut spec = ExecSpec::new(["sh", "-c", script]);
        spec.user = user;
        Ok(text(&sandbox.exec(&spec)?.stdout).trim().to_string())
    };
    check_eq!(
        ask(ExecUser::Dev, "id -un; id -u; pwd")?,
        format!("dev\n{}\n/workspace", harness.image().dev_uid),
        "dev"
    );
    check_eq!(
        ask(ExecUser::Dev, "echo $HOME; echo $USER; id -g")?,
        format!("/home/dev\ndev\n{}", harness.image().dev_gid),
        "dev's home"
    );
    check_eq!(ask(ExecUser::Root, "id -un; id -u; echo $HOME")?, "root\n0\n/root", "root");
    check_eq!(
        ask(ExecUser::Dev, "touch /etc/mine 2>&1 || echo no")?.ends_with("no"),
        true,
        "dev writes to /etc"
    );
    check_eq!(ask(ExecUser::Root, "touch /etc/mine && echo yes")?, "yes", "root writes to /etc");
    Ok(())
}

fn twenty(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let run = |number: i32| {
        sandbox.try_sh(&format!("sleep 0.2; seq {number} 2000 | tail -n 1; echo {number} >&2; exit {number}"))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20).map(|number| (number, scope.spawn(move || run(number)))).collect();
        for (number, thread) in threads {
            let Ok(done) = thread.join() else { fail!("a thread panicked") };
            let done = done?;
            check_eq!(done.status, ExitStatus::Code(number), "status of number {number}");
            check_eq!(text(&done.stdout), "2000\n", "stdout of number {number}");
            check_eq!(text(&done.stderr), format!("{number}\n"), "stderr of number {number}");
        }
        Ok(())
    })
}

/// Whether a process of the guest is there, asked from within.
fn lives(sandbox: &Sandbox<'_>, pid: &str) -> Outcome<bool> {
    Ok(sandbox.try_sh(&format!("kill -0 {pid}"))?.status == ExitStatus::SUCCESS)
}

fn hang_up(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    for (file, tty) in
        [("piped-pid", None), ("terminal-pid", Some(sandbox_model::TermSize { cols: 80, rows: 24 }))]
    {
        let mut spec = ExecSpec::new(["sh", "-c", &format!("echo $$ > {file}; exec sleep 1000")]);
        spec.tty = tty;
        let session = sandbox.runtime().exec(sandbox.name(), &spec)?;
        sandbox.wait_until("the command runs", || {
            Ok(std::fs::read_to_string(sandbox.host(file)).is_ok_and(|pid| pid.ends_with('\n')))
        })?;
        let pid = std::fs::read_to_string(sandbox.host(file))?.trim().to_string();
        check!(lives(&sandbox, &pid)?, "it ended by itself (tty: {tty:?})");
        drop(session);
        sandbox.wait_until("the command is gone", || Ok(!lives(&sandbox, &pid)?))?;
    }
    Ok(())
}

fn detached(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::started(harness)?;
    let script = "cat > input; echo to nobody; while :; do echo >> beats; sleep 0.05; done";
    let mut spec = ExecSpec::new(["sh", "-c", script]);
    spec.detach = true;
    let mut session = sandbox.live(&spec)?;
    match session.end()? {
        Ok(ExitStatus::Code(0)) => {}
        other => fail!("the session of a detached command ended with {other:?}"),
    }
    check_eq!(text(&session.stdout), "", "output of a detached command");
    drop(session);
    let beats = || std::fs::metadata(sandbox.host("beats")).map_or(0, |file| file.len());
    for _ in 0..2 {
        let before = beats();
        sandbox.wait_until("the command is at work", || Ok(beats() > before))?;
        // Time enough for a hang-up to arrive.
        std::thread::sleep(Duration::from_millis(300));
    }
    check_eq!(std::fs::metadata(sandbox.host("input"))?.len(), 0, "input of a detached command");

    let mut spec = ExecSpec::new(["no-such-program"]);
    spec.detach = true;
    match sandbox.try_exec(&spec)? {
        Err(RuntimeError::ExecFailed { code: 127, .. }) => {}
        other => fail!("a detached program that does not exist: {other:?}"),
    }
    sandbox.restart()?;
    let after = beats();
    std::thread::sleep(Duration::from_millis(300));
    check_eq!(beats(), after, "beats of a detached command after its sandbox has ended");
    Ok(())
}

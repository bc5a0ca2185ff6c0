use sandbox_model::{ExecSpec, ExitStatus, TermSize};

use super::check::{check, check_eq};
use super::sandbox::{Live, Sandbox, text};
use super::{Case, Harness, Outcome};

pub(super) const CASES: &[Case] = &[
    Case::core("terminal_is_one_and_has_its_size", is_one).borrowing(),
    Case::core("terminal_resize_is_seen", resize).borrowing(),
    Case::core("terminal_control_c_interrupts", control_c).borrowing(),
    Case::core("terminal_lines_go_in_and_out", lines).borrowing(),
    Case::core("terminal_exit_code", exit_code).borrowing(),
];

const SIZE: TermSize = TermSize { cols: 93, rows: 31 };

fn on_terminal(sandbox: &Sandbox<'_>, script: &str) -> Outcome<Live> {
    let mut spec = ExecSpec::new(["sh", "-c", script]);
    spec.tty = Some(SIZE);
    sandbox.live(&spec)
}

fn is_one(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let script = "for n in 0 1 2; do test -t $n && printf yes || printf no; done; stty size; tty >/dev/null && echo named";
    let done = on_terminal(&sandbox, script)?.collect()??;
    check_eq!(text(&done.stdout), "yesyesyes31 93\r\nnamed\r\n", "on a terminal");
    check_eq!(done.stderr, b"", "stderr of a terminal");
    let plain = sandbox.sh("for n in 0 1 2; do test -t $n && printf yes || printf no; done")?;
    check_eq!(plain, "nonono", "without a terminal");
    // It is the controlling terminal too.
    let done = on_terminal(&sandbox, "echo direct > /dev/tty")?.collect()??;
    check_eq!(text(&done.stdout), "direct\r\n", "through /dev/tty");
    Ok(())
}

fn resize(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut command = on_terminal(&sandbox, script)?;
    command.expect("ready")?;
    command.input.resize(TermSize { cols: 132, rows: 50 })?;
    command.expect("50 132\r\n")?;
    command.input.try_clone()?.resize(TermSize { cols: 20, rows: 5 })?;
    command.expect("5 20\r\n")
}

fn control_c(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let mut command = on_terminal(&sandbox, "echo ready; exec sleep 1000")?;
    command.expect("ready")?;
    command.input.write(&[3])?;
    check_eq!(command.end()??, ExitStatus::Signal(2), "end by Ctrl-C");
    // A command that handles it goes on.
    let mut command =
        on_terminal(&sandbox, "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done")?;
    command.expect("ready")?;
    command.input.write(&[3])?;
    command.expect("caught")?;
    check_eq!(command.end()??, ExitStatus::Code(9), "end of a command that handles Ctrl-C");
    Ok(())
}

fn lines(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    let mut command = on_terminal(&sandbox, "echo ready; read -r line; echo \"got <$line>\"")?;
    command.expect("ready")?;
    command.input.write("grüße \"you\"\r".as_bytes())?;
    command.expect("got <grüße \"you\">\r\n")?;
    check_eq!(command.end()??, ExitStatus::SUCCESS, "status");
    // Much output, all of it before the end.
    let done = on_terminal(&sandbox, "seq 1 20000")?.collect()??;
    let lines: Vec<String> = text(&done.stdout).lines().map(str::to_string).collect();
    check_eq!(lines.len(), 20_000, "lines");
    check!(lines.last().is_some_and(|line| line == "20000"), "the last line is {:?}", lines.last());
    Ok(())
}

fn exit_code(harness: &dyn Harness) -> Outcome {
    let sandbox = Sandbox::borrowed(harness)?;
    for code in [0, 7, 255] {
        let done = on_terminal(&sandbox, &format!("exit {code}"))?.collect()??;
        check_eq!(done.status, ExitStatus::Code(code), "exit {code}");
    }
    Ok(())
}

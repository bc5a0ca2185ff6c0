//! Sleep and wake with something broken on the way: each file of the saved memory, each process at several
//! moments. Whatever happens, the next start comes up, and home, checkout and root disk are whole.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_model::{ByteSize, ExecSpec};

use crate::sleeper::{GRACE, Outcome, Sleeper, text};

/// A name and what it runs.
type Case = (&'static str, fn() -> Outcome);
/// A way to break a file.
type Damage = fn(&Path) -> std::io::Result<()>;

/// Programs that run beside QEMU, by what follows the program on their command lines.
const PARTS: [&str; 3] = ["machine", "share", "network"];

pub const CASES: [Case; 6] = [
    ("sleep_with_each_file_damaged", damage),
    ("sleep_with_each_process_killed_as_it_falls_asleep", killed_falling_asleep),
    ("sleep_with_each_process_killed_as_it_wakes", killed_waking),
    ("sleep_with_a_wake_that_is_called_off", called_off),
    ("sleep_resets_connections_to_others_and_sets_the_clock", resets),
    ("sleep_saves_no_memory_that_was_freed", freed),
];

fn damage() -> Outcome {
    let mut sleeper = Sleeper::new("sleep-damage")?;
    // The controls: undamaged, it wakes, from whoever writes its memory to the disk and from the disk.
    for (when, wait) in [("undamaged", false), ("undamaged, from the disk", true)] {
        sleeper.write()?;
        sleeper.mark()?;
        sleeper.fall_asleep()?;
        if wait {
            sleeper.is_on_disk()?;
        }
        sleeper.check(when)?;
        if !sleeper.is_marked()? {
            return Err(format!("{when}, it booted instead of waking"));
        }
    }
    // Memory that did not reach the disk ends with the process that had it.
    sleeper.write()?;
    sleeper.fall_asleep()?;
    sleeper.kill_holder();
    let was_held = fs::read_to_string(sleeper.dir().join("memory.json")).map_err(text)?.contains("\"held\"");
    sleeper.check("with the process killed that wrote its memory to the disk")?;
    if sleeper.is_marked()? == was_held {
        return Err(format!(
            "its memory was{} lost, and it did not start so",
            if was_held { "" } else { " not" }
        ));
    }
    let damages: [(&str, Damage); 3] = [
        ("removed", |path| fs::remove_file(path)),
        ("cut short", |path| fs::File::options().write(true).open(path)?.set_len(100)),
        ("overwritten", |path| {
            let size = fs::metadata(path)?.len();
            fs::write(path, vec![b'x'; usize::try_from(size.min(1 << 20)).unwrap_or(1)])?;
            fs::File::options().write(true).open(path)?.set_len(size)
        }),
    ];
    for file in ["memory.ram", "memory.state", "memory.json"] {
        for (how, break_it) in damages {
            let when = format!("{file} {how}");
            sleeper.write()?;
            sleeper.mark()?;
            sleeper.fall_asleep()?;
            sleeper.is_on_disk()?;
            break_it(&sleeper.dir().join(file)).map_err(text)?;
            sleeper.check(&when)?;
            if sleeper.is_marked()? {
                return Err(format!("{when}: it woke on damaged memory"));
            }
        }
    }
    Ok(())
}

fn moments() -> impl Iterator<Item = (&'static str, Duration)> {
    let parts = PARTS.into_iter().chain(["qemu"]);
    parts.flat_map(|part| [0, 40, 120, 300].map(|millis| (part, Duration::from_millis(millis))))
}

fn killed_falling_asleep() -> Outcome {
    let mut sleeper = Sleeper::new("sleep-killed")?;
    for (part, after) in moments() {
        sleeper.write()?;
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| sleeper.runtime().sleep(sleeper.name(), None, GRACE));
            std::thread::sleep(after);
            sleeper.kill(part);
            // Whether it was too late is the machine's matter.
            let _ = sleeping.join();
        });
        at_rest(&sleeper)?;
        sleeper.check(&format!("{part} killed {after:?} after the order to sleep"))?;
    }
    Ok(())
}

fn killed_waking() -> Outcome {
    let mut sleeper = Sleeper::new("wake-killed")?;
    for (part, after) in moments() {
        sleeper.write()?;
        sleeper.fall_asleep()?;
        std::thread::scope(|scope| {
            let waking = scope.spawn(|| sleeper.runtime().start(sleeper.name()));
            std::thread::sleep(after);
            sleeper.kill(part);
            let _ = waking.join();
        });
        // Killed after it was up, the machine ends a moment later; this makes the moment certain.
        sleeper.runtime().kill(sleeper.name()).map_err(text)?;
        sleeper.check(&format!("{part} killed {after:?} after the order to wake"))?;
    }
    Ok(())
}

/// Whoever waits for a wake gives up at several moments: what runs in the guest's memory is never lost for that.
fn called_off() -> Outcome {
    let mut sleeper = Sleeper::new("wake-called-off")?;
    sleeper.mark()?;
    let moments = [0, 40, 120, 300].map(|millis| Some(Duration::from_millis(millis)));
    for after in moments.into_iter().chain([None]) {
        sleeper.write()?;
        sleeper.fall_asleep()?;
        let memory = sleeper.dir().join("memory.json");
        std::thread::scope(|scope| {
            let waking = scope.spawn(|| sleeper.runtime().start(sleeper.name()));
            match after {
                Some(after) => std::thread::sleep(after),
                // From then on it is in no file.
                None => {
                    while memory.exists() && !waking.is_finished() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            let called_off = sleeper.runtime().call_off(sleeper.name());
            let _ = waking.join();
            // It may have begun only now.
            called_off.and_then(|()| sleeper.runtime().call_off(sleeper.name())).map_err(text)
        })?;
        at_rest(&sleeper)?;
        let when = format!("called off {after:?} after the order to wake");
        sleeper.check(&when)?;
        if !sleeper.is_marked()? {
            return Err(format!("{when}, it booted instead of waking"));
        }
    }
    Ok(())
}

fn at_rest(sleeper: &Sleeper) -> Outcome {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let info = sleeper.runtime().inspect(sleeper.name()).map_err(text)?;
        if info.is_some_and(|info| info.status.is_at_rest()) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("it does not come to rest".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Memory that a program used and gave back is given back to the host while the sandbox runs, and is not saved;
/// what saved memory is said to take is what it takes.
fn freed() -> Outcome {
    use std::os::unix::fs::MetadataExt;
    const USED: u64 = 200 << 20;
    let sleeper = Sleeper::new("sleep-freed")?;
    let before = sleeper.memory_taken()?;
    // Nothing that is zero: that would cost nothing anyway.
    sleeper.sh(&format!("perl -e '$x = \"ab\"; $x x= {}; print length $x'", USED / 2))?;
    let used = sleeper.memory_taken()?;
    if used < before + USED {
        return Err(format!("{USED} bytes were used, and the memory grew from {before} to {used}"));
    }
    // The guest gives back a part every two seconds.
    let deadline = Instant::now() + Duration::from_mins(1);
    while sleeper.memory_taken()? > used - USED / 2 {
        if Instant::now() > deadline {
            return Err(format!("the memory took {used} bytes, and takes {}", sleeper.memory_taken()?));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    sleeper.fall_asleep()?;
    sleeper.is_on_disk()?;
    let on_disk = |name: &str| -> Outcome<u64> {
        Ok(fs::metadata(sleeper.dir().join(name)).map_err(text)?.blocks() * 512)
    };
    let taken = on_disk("memory.ram")? + on_disk("memory.state")?;
    let info = sleeper.runtime().inspect(sleeper.name()).map_err(text)?;
    let said = info.and_then(|info| info.saved_memory).map(ByteSize::bytes);
    if said != Some(taken) || taken > used - USED / 2 {
        return Err(format!("{used} bytes were used, {taken} are saved, and {said:?} are said to be"));
    }
    sleeper.runtime().start(sleeper.name()).map_err(text)?;
    sleeper.sh("true").map(drop)
}

/// Two readers in the guest: one of a server on the host, one of a server beside it. Each writes to the
/// workspace how its wait ended.
const READERS: &str = r#"
use Socket;
sub report { open(my $f, ">", "/workspace/$_[0]"); print $f $_[1]; close $f }
socket(my $l, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or die "bind: $!";
listen($l, 1) or die "listen: $!";
my ($port) = sockaddr_in(getsockname($l));
if (!fork) {
    accept(my $c, $l) or die "accept: $!";
    select(undef, undef, undef, 0.1) until -e "/workspace/woken";
    syswrite($c, "hello");
    exit;
}
if (!fork) {
    socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    connect($s, sockaddr_in($port, INADDR_LOOPBACK)) or die "connect: $!";
    sysread($s, my $got, 5);
    report("inside", $got);
    exit;
}
my $host = gethostbyname("host.agents-sandbox.internal") or die "no host";
socket(my $s, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
connect($s, sockaddr_in($ARGV[0], $host)) or die "connect: $!";
report("connected", "yes");
my $count = sysread($s, my $got, 5);
report("outside", defined $count ? "ended" : "error");
"#;

/// Writes the time of day, in milliseconds, again and again. Number 228 is `clock_gettime`.
const CLOCKS: &str = r#"
sub now { my $b = pack("qq", 0, 0); syscall(228, 0, $b); my ($s, $n) = unpack("qq", $b); $s * 1000 + int($n / 1e6) }
open(my $f, ">", "/workspace/clocks") or die;
while (1) { syswrite($f, now() . "\n"); select(undef, undef, undef, 0.01) }
"#;
/// How often [`CLOCKS`] may see the time at which it fell asleep: it looks every 10 ms. A machine that gets no
/// turn on the host makes the time longer, and not what a program does in it.
const WRONG_LOOKS: usize = 10;
const SLEPT: Duration = Duration::from_secs(2);

/// What [`CLOCKS`] wrote behind `known` bytes: whatever a program saw after it woke.
fn clocks(path: &Path, known: usize) -> Outcome<Vec<i64>> {
    let text = fs::read_to_string(path).map_err(text)?;
    let fresh = text.get(known..).unwrap_or_default();
    // The last line may not be whole yet.
    let lines = fresh.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    Ok(lines.filter_map(|day| day.parse().ok()).collect())
}

/// How often a program saw a time of day before `since`, until it saw a later one.
fn wrong_looks(seen: &[i64], since: i64) -> Option<usize> {
    seen.iter().position(|day| *day >= since)
}

/// A program that waits on a connection to the host hears of its end; one inside the guest goes on. The clock
/// is right before a program can have done much.
fn resets() -> Outcome {
    let sleeper = Sleeper::new("sleep-resets")?;
    let server = std::net::TcpListener::bind("127.0.0.1:0").map_err(text)?;
    let port = server.local_addr().map_err(text)?.port().to_string();
    let spec = ExecSpec {
        detach: true,
        ..ExecSpec::new(["sh", "-c", "exec perl -e \"$1\" \"$2\" 2>/workspace/errors", "sh", READERS, &port])
    };
    let started =
        sleeper.runtime().exec(sleeper.name(), &spec).and_then(sandbox_runtime::ExecSession::collect);
    started.map_err(text)?;
    let file = |name: &str| sleeper.spec.workspace.source.join(name);
    appears(&file("connected")).map_err(|problem| {
        format!("{problem}: {}", fs::read_to_string(file("errors")).unwrap_or_default())
    })?;
    let _held = server.accept().map_err(text)?;
    let spec = ExecSpec { detach: true, ..ExecSpec::new(["perl", "-e", CLOCKS]) };
    let started =
        sleeper.runtime().exec(sleeper.name(), &spec).and_then(sandbox_runtime::ExecSession::collect);
    started.map_err(text)?;
    appears(&file("clocks"))?;
    sleeper.fall_asleep()?;
    if file("outside").exists() {
        return Err("the connection ended before the sandbox slept".into());
    }
    let known = fs::read(file("clocks")).map_err(text)?.len();
    std::thread::sleep(SLEPT);
    let since = i64::try_from(unix_millis()).map_err(text)?;
    sleeper.runtime().start(sleeper.name()).map_err(text)?;
    let deadline = Instant::now() + Duration::from_mins(1);
    let wrong = loop {
        if let Some(wrong) = wrong_looks(&clocks(&file("clocks"), known)?, since) {
            break wrong;
        }
        if Instant::now() > deadline {
            return Err(format!("no program saw the right time: {:?}", clocks(&file("clocks"), known)?));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    eprintln!("a program saw the old time {wrong} times");
    if wrong > WRONG_LOOKS {
        return Err(format!("a program looked {wrong} times at the time at which it had fallen asleep"));
    }
    appears(&file("outside"))?;
    if file("inside").exists() {
        return Err("a connection inside the guest was ended".into());
    }
    fs::write(file("woken"), "").map_err(text)?;
    appears(&file("inside"))?;
    let inside = fs::read_to_string(file("inside")).map_err(text)?;
    if inside == "hello" { Ok(()) } else { Err(format!("inside the guest came {inside:?}")) }
}

fn unix_millis() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_millis()
}

fn appears(path: &Path) -> Outcome {
    let deadline = Instant::now() + Duration::from_mins(1);
    while fs::metadata(path).map_or(0, |found| found.len()) == 0 {
        if Instant::now() > deadline {
            return Err(format!("{} did not appear", path.display()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

//! One command in the guest that makes its home what a bundle says.

use std::time::Duration;

use sandbox_model::{ExecSpec, SandboxName};
use sandbox_runtime::{Runtime, gather};

use super::bundle::Bundle;

/// Runs as `dev`. The first bytes of the input are names of files to remove, the next names of folders that
/// may be empty then, the rest is the archive. Old files go before new ones come, for a file may become a
/// folder. Emulated, every process and every call counts: times of change are not set.
const UNPACK: &str = r#"cd "$HOME" || exit
[ "$1" = 0 ] || head -c "$1" | xargs -0 -r rm -f --
[ "$2" = 0 ] || head -c "$2" | xargs -0 -r rmdir -- 2>/dev/null
exec tar -x -p -m -f -"#;

/// A large configuration takes minutes without hardware virtualization.
const WITHIN: Duration = Duration::from_mins(10);

/// The error is a sentence.
pub fn transfer(runtime: &dyn Runtime, sandbox: &SandboxName, bundle: &Bundle) -> Result<(), String> {
    let (removed, emptied) = (names(bundle.removed.iter().chain(&bundle.hidden)), names(&bundle.emptied));
    let lengths = [removed.len().to_string(), emptied.len().to_string()];
    let spec = ExecSpec::new(["sh", "-c", UNPACK, "agents-sandbox", &lengths[0], &lengths[1]]);
    let session = runtime.exec(sandbox, &spec).map_err(|error| error.to_string())?;
    let (mut input, output) = (session.input, session.output);
    std::thread::scope(|scope| {
        let feeder = scope.spawn(move || {
            let parts = [removed.as_slice(), &emptied, &bundle.archive];
            let mut chunks = parts.into_iter().flat_map(|part| part.chunks(1 << 16));
            chunks.try_for_each(|chunk| input.write(chunk)).and_then(|()| input.close())
        });
        // What fails drops the output, and with it the session: a guest that takes nothing does not hold the feeder up.
        let ended = gather(output, "the copy of the configuration", WITHIN);
        // A command that ended early took no more input; its own words say more than the broken pipe.
        let fed = feeder.join().unwrap_or(Ok(()));
        let ended = ended.map_err(|error| error.to_string())?;
        if ended.status.success() {
            return fed.map_err(|error| error.to_string());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        Err(format!("exit code {}: {}", ended.status.shell_code(), said.trim()))
    })
}

fn names<'a>(paths: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    paths.into_iter().flat_map(|path| path.bytes().chain([0])).collect()
}

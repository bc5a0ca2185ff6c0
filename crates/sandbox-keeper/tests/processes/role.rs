//! What this program does when a test starts it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use sandbox_keeper::{
    Activity, ActivityError, ClientError, ClientInfo, KeeperConfig, LeaseOutcome, Ready, Session,
    lease_or_start, leave_terminal, run, spawn,
};
use sandbox_runtime::fake::FakeRuntime;
use serde::{Deserialize, Serialize};

const ROLE: &str = "KEEPER_TEST_ROLE";

#[derive(Serialize, Deserialize)]
pub(crate) struct KeeperOrder {
    pub keeper: KeeperConfig,
    pub runtime: PathBuf,
    /// What the agent says: JSON, an error where it is something else, nothing where it is missing.
    pub agent: PathBuf,
}

struct AgentFile(PathBuf);

impl Activity for AgentFile {
    fn poll(&mut self) -> Result<Vec<Session>, ActivityError> {
        let said = std::fs::read(&self.0);
        // A slow agent tells what was so when it was asked.
        if let Ok(millis) = std::fs::read_to_string(self.0.with_extension("delay")) {
            std::thread::sleep(Duration::from_millis(millis.parse().unwrap_or_default()));
        }
        match said {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|_| ActivityError(String::from_utf8_lossy(&text).into_owned())),
            Err(_) => Ok(Vec::new()),
        }
    }
}

/// This program as a keeper.
pub(crate) fn start_keeper(order: &KeeperOrder) -> Result<Ready, ClientError> {
    let program = std::env::current_exe()?;
    spawn(Command::new(program).env(ROLE, "keeper"), order, &order.keeper.files())
}

/// This program as a client that starts a keeper where there is none, says what came of it, and holds its
/// lease until its stdin ends.
pub(crate) fn client(order: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(ROLE, "client").arg(order);
    Ok(command)
}

pub(crate) fn play() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let result = match role.as_str() {
        "keeper" => keep(),
        _ => lease(),
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn keep() -> crate::Outcome {
    leave_terminal();
    let order: KeeperOrder = serde_json::from_reader(std::io::stdin())?;
    let runtime = Arc::new(FakeRuntime::open(order.runtime)?);
    run(order.keeper, runtime, Box::new(AgentFile(order.agent)), &mut std::io::stdout())?;
    Ok(())
}

fn lease() -> crate::Outcome {
    let path = std::env::args_os().nth(1).ok_or("no order")?;
    let order: KeeperOrder = serde_json::from_slice(&std::fs::read(path)?)?;
    let info = ClientInfo {
        pid: std::process::id(),
        verb: "test".into(),
        version: "0".into(),
        keep_secs: None,
        ssh_agent: None,
    };
    match lease_or_start(&order.keeper.files(), &info, &mut || start_keeper(&order))? {
        LeaseOutcome::Leased(lease) => {
            println!("leased");
            std::io::stdin().read_to_end(&mut Vec::new())?;
            drop(lease);
        }
        LeaseOutcome::Draining(_) => println!("draining"),
        LeaseOutcome::NoKeeper => println!("no keeper"),
    }
    Ok(())
}

//! `volume list`: the home volumes of this user.

use clap::Args;
use sandbox_lifecycle::volumes::{Volume, list};
use sandbox_state::Stamp;
use serde::Serialize;

use crate::app::App;
use crate::commands::CommandResult;
use crate::commands::list::Format;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};

/// List all home volumes
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "ls")]
pub struct VolumeListArgs {
    /// Names only, one per line
    #[arg(long, conflicts_with = "format")]
    pub names: bool,

    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

const COLUMNS: [Column; 4] = [
    Column { heading: "NAME", whole: false },
    Column { heading: "KIND", whole: true },
    Column { heading: "SIZE", whole: true },
    Column { heading: "CREATED", whole: true },
];

/// One volume in `--format json`; sizes are bytes.
#[derive(Serialize)]
pub struct Entry<'a> {
    name: &'a str,
    kind: &'a str,
    /// What it can hold.
    size: Option<u64>,
    /// What it takes on disk.
    used: u64,
    created: String,
    path: &'a std::path::Path,
    /// The sandbox whose current home it is.
    current_of: Option<&'a str>,
    mounted_by: Vec<&'a str>,
    problem: Option<&'a str>,
}

impl<'a> From<&'a Volume> for Entry<'a> {
    fn from(volume: &'a Volume) -> Self {
        Self {
            name: volume.name.as_str(),
            kind: volume.kind,
            size: volume.capacity.map(sandbox_model::ByteSize::bytes),
            used: volume.used.bytes(),
            created: Stamp::for_json(volume.created),
            path: &volume.path,
            current_of: volume.current_of.as_ref().map(sandbox_model::SandboxName::as_str),
            mounted_by: volume.mounted_by.iter().map(sandbox_model::SandboxName::as_str).collect(),
            problem: volume.problem.as_deref(),
        }
    }
}

pub fn run(app: &App, args: &VolumeListArgs) -> CommandResult {
    let volumes = list(&app.context()?)?;
    if args.names {
        if !volumes.is_empty() {
            let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
            app.out.line(&names.join("\n"))?;
        }
    } else if args.format.is_some() {
        app.out.json(&volumes.iter().map(Entry::from).collect::<Vec<_>>())?;
    } else if volumes.is_empty() {
        app.console.info("there are no home volumes");
    } else {
        app.out.line(&table(&volumes).render())?;
    }
    for volume in &volumes {
        if let Some(problem) = &volume.problem {
            app.console.warning(&format!("{}: {problem}", volume.path.display()));
        }
    }
    Ok(Exit::SUCCESS)
}

fn table(volumes: &[Volume]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for volume in volumes {
        let tone = if volume.problem.is_some() { Tone::Bad } else { Tone::Plain };
        let size = volume.capacity.map_or_else(|| "-".into(), sandbox_model::ByteSize::human);
        let cells = [volume.name.to_string(), volume.kind.into(), size, Stamp::for_table(volume.created)];
        table.row(cells.map(|text| (text, tone)));
    }
    table
}

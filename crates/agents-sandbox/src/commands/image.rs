//! The `image` group, and `image list`.

mod inspect;
mod remove;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use sandbox_lifecycle::prune::Kinds;
use sandbox_model::{Digest, ImageRef};
use sandbox_runtime::ImageInfo;
use sandbox_state::Stamp;
use serde::Serialize;

use super::{CommandResult, build, prune};
use crate::app::App;
use crate::exit::Exit;
use crate::report::{Column, Table, Tone};

/// Everything that works on images
#[derive(Debug, Subcommand)]
#[command(visible_alias = "img")]
pub enum ImageCommand {
    List(ImageListArgs),
    Build(build::BuildArgs),
    Inspect(inspect::ImageInspectArgs),
    Remove(remove::ImageRemoveArgs),
    Prune(prune::ImagePruneArgs),
}

/// List the images that sandboxes are made from
#[derive(Debug, Clone, Args)]
#[command(visible_alias = "ls")]
pub struct ImageListArgs {
    /// Another form than the table
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<super::list::Format>,
}

pub fn run(app: &App, command: &ImageCommand) -> CommandResult {
    match command {
        ImageCommand::List(args) => list(app, args),
        ImageCommand::Build(args) => build::run(app, args),
        ImageCommand::Inspect(args) => inspect::run(app, args),
        ImageCommand::Remove(args) => remove::run(app, args),
        ImageCommand::Prune(args) => prune::run(app, &args.options, Kinds::IMAGES),
    }
}

const COLUMNS: [Column; 4] = [
    Column { heading: "REFERENCE", whole: false },
    Column { heading: "DIGEST", whole: true },
    Column { heading: "SIZE", whole: true },
    Column { heading: "CREATED", whole: true },
];

#[derive(Serialize)]
struct Entry<'a> {
    reference: &'a ImageRef,
    digest: &'a Digest,
    /// Bytes.
    size: u64,
    created: String,
    labels: &'a BTreeMap<String, String>,
}

fn list(app: &App, args: &ImageListArgs) -> CommandResult {
    let context = app.context()?;
    let mut images = context.runtime.list_images()?;
    images.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.reference.cmp(&b.reference)));
    if args.format.is_some() {
        let entries: Vec<Entry<'_>> = images.iter().map(entry).collect();
        app.out.json(&entries)?;
    } else if images.is_empty() {
        app.console.info("there are no images");
    } else {
        let mut table = Table::new(&COLUMNS);
        for image in &images {
            let cells = [
                image.reference.to_string(),
                image.digest.short().to_string(),
                image.size.human(),
                Stamp::for_table(image.created),
            ];
            table.row(cells.map(|text| (text, Tone::Plain)));
        }
        app.out.line(&table.render())?;
    }
    for broken in context.runtime.broken_images()? {
        app.console.warning(&format!(
            "one image is not listed: {}; removing that file or building the image anew mends it, and until then \
             no image is removed from the disk",
            broken.problem
        ));
    }
    Ok(Exit::SUCCESS)
}

fn entry(image: &ImageInfo) -> Entry<'_> {
    Entry {
        reference: &image.reference,
        digest: &image.digest,
        size: image.size.bytes(),
        created: Stamp::for_json(image.created),
        labels: &image.labels,
    }
}

//! How results, messages and progress look. Data goes to stdout, everything else to stderr; colour and
//! movement only where a person watches.

mod console;
mod decisions;
mod output;
mod plain;
mod reporter;
mod status;
mod step;
mod table;

pub use console::{Console, Lines, labelled};
pub use output::Output;
pub use plain::{plain, plain_lines};
pub use status::status_cell;
pub use table::{Column, Table, Tone};

use std::sync::mpsc::{Sender, channel};
use std::thread;

use sandbox_model::TermSize;
use sandbox_runtime::ExecInput;

/// What goes to the command beside its input.
#[derive(Debug, Clone, Copy)]
pub enum Control {
    Resize(TermSize),
    Signal(i32),
}

/// Passes sizes and signals on in a thread of its own: whoever sends them must never block in the guest.
pub fn forward(mut input: Box<dyn ExecInput>) -> std::io::Result<Sender<Control>> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("control".into()).spawn(move || {
        for control in receiver {
            let sent = match control {
                Control::Resize(size) => input.resize(size),
                Control::Signal(signal) => input.signal(signal),
            };
            if sent.is_err() {
                return;
            }
        }
    })?;
    Ok(sender)
}

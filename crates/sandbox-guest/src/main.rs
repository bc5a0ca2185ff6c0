//! `/init` of every QEMU guest: init as process 1, the agent process otherwise. With the argument `stdio` it
//! serves a link over standard input and output instead.

fn main() {
    if std::env::args_os().nth(1).is_some_and(|mode| mode == sandbox_guest::stdio::MODE) {
        sandbox_guest::stdio::run()
    } else if std::process::id() == 1 {
        sandbox_guest::init::run()
    } else {
        sandbox_guest::agent::run()
    }
}

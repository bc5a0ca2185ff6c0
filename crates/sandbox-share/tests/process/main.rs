//! The share server as the processes it is: sandbox, identity, life and death, and every request
//! under its filter of system calls. The tests play the virtual machine.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, missing_debug_implementations, unsafe_code)]

mod front_end;
mod guest;
mod identity;
mod life;
mod server;
mod walk;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, rest)) if verb == server::VERB => return server::serve(rest),
        Some((verb, rest)) if verb == server::PARENT_VERB => return server::start_and_wait(rest),
        _ => {}
    }
    let tests: [(&str, fn()); 12] = [
        ("the_server_is_the_owner_without_rights", identity::the_server_is_the_owner_without_rights),
        ("files_of_the_guest_belong_to_the_owner", identity::files_of_the_guest_belong_to_the_owner),
        ("a_root_owner_has_no_capabilities_either", identity::a_root_owner_has_no_capabilities_either),
        ("several_folders_are_served_side_by_side", identity::several_folders_are_served_side_by_side),
        ("without_namespaces_the_share_still_works", identity::without_namespaces_the_share_still_works),
        ("every_request_passes_the_filter", life::every_request_passes_the_filter),
        ("the_server_ends_when_the_machine_disconnects", life::the_server_ends_when_the_machine_disconnects),
        (
            "a_checkout_whose_place_became_a_link_is_not_served",
            life::a_checkout_whose_place_became_a_link_is_not_served,
        ),
        ("no_orphan_before_the_machine_connects", life::no_orphan_before_the_machine_connects),
        ("no_orphan_while_serving", life::no_orphan_while_serving),
        ("the_inner_process_ends_with_the_outer", life::the_inner_process_ends_with_the_outer),
        ("sixty_thousand_files_under_a_limit_of_twenty_thousand", walk::sixty_thousand_files),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit();
}

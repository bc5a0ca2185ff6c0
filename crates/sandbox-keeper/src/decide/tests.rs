use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

const RULES: Rules = Rules {
    timeout: Duration::from_secs(10),
    first_lease: Duration::from_secs(5),
    stop_on_active_sessions: false,
    max_session_retries: 3,
    agent_patience: Duration::from_mins(1),
};

fn sessions(kinds: &[SessionKind]) -> AgentView {
    AgentView::Sessions(kinds.iter().map(|kind| Session { kind: *kind, directory: None }).collect())
}

/// Decides at `at` seconds after the last holder.
fn after(at: u32, rules: Rules, clients: usize, agent: &AgentView) -> (Instant, Decision) {
    let start = Instant::now();
    let now = start + SECOND * at;
    (
        start,
        decide(&Inputs {
            now,
            rules,
            clients,
            ever_leased: true,
            idle_since: start,
            keep_until: None,
            agent,
        }),
    )
}

fn held(agent: &AgentView) -> String {
    match after(1000, RULES, 0, agent).1 {
        Decision::Hold(reason) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

fn stops(agent: &AgentView) -> String {
    match after(1000, RULES, 0, agent).1 {
        Decision::Stop(note) => note.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_hold_whatever_else_is_true() {
    for (clients, text) in [(1, "held by 1 client"), (2, "held by 2 clients")] {
        let rules = Rules { stop_on_active_sessions: true, timeout: Duration::ZERO, ..RULES };
        match after(1000, rules, clients, &sessions(&[])).1 {
            Decision::Hold(reason) => assert_eq!(reason.to_string(), text),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_timeout_counts_from_the_last_holder() {
    let quiet = sessions(&[]);
    let (start, early) = after(9, RULES, 0, &quiet);
    assert_eq!(early, Decision::StopAt(start + SECOND * 10, Note::default()));
    assert_eq!(after(10, RULES, 0, &quiet).1, Decision::Stop(Note::default()));
}

#[test]
fn sessions_that_work_hold() {
    use SessionKind::{Busy, Idle, Retry, WaitingForUser};
    assert_eq!(held(&sessions(&[Busy])), "held: 1 busy session");
    assert_eq!(held(&sessions(&[Busy, Busy, Idle, WaitingForUser])), "held: 2 busy sessions");
    assert_eq!(held(&sessions(&[Retry { attempt: 2 }])), "held: 1 retrying session");
    assert_eq!(held(&sessions(&[Busy, Retry { attempt: 1 }])), "held: 1 busy session, 1 retrying session");
}

#[test]
fn sessions_that_do_not_work_hold_nothing() {
    use SessionKind::{Idle, Retry, WaitingForUser};
    assert_eq!(stops(&sessions(&[Idle, Idle])), "");
    assert_eq!(stops(&sessions(&[WaitingForUser])), ": 1 session waits for the user");
    assert_eq!(stops(&sessions(&[Retry { attempt: 3 }])), ": 1 session retries in vain");
    assert_eq!(
        stops(&sessions(&[Retry { attempt: 3 }, Retry { attempt: 99 }, WaitingForUser])),
        ": 1 session waits for the user, 2 sessions retry in vain"
    );
}

#[test]
fn no_retries_tolerated_means_none() {
    let rules = Rules { max_session_retries: 0, ..RULES };
    let agent = sessions(&[SessionKind::Retry { attempt: 0 }]);
    assert!(matches!(after(1000, rules, 0, &agent).1, Decision::Stop(_)));
}

#[test]
fn working_sessions_are_nothing_to_one_that_stops_on_them() {
    let rules = Rules { stop_on_active_sessions: true, ..RULES };
    let unknown = AgentView::NoAnswer { since: Instant::now(), error: None };
    for agent in [sessions(&[SessionKind::Busy]), unknown] {
        assert_eq!(after(10, rules, 0, &agent).1, Decision::Stop(Note::default()));
        assert!(matches!(after(9, rules, 0, &agent).1, Decision::StopAt(..)));
    }
}

#[test]
fn silence_holds_for_a_while() {
    let start = Instant::now();
    let ask = |at: u32, error: Option<&str>| {
        let agent = AgentView::NoAnswer { since: start, error: error.map(Into::into) };
        let now = start + SECOND * at;
        decide(&Inputs {
            now,
            rules: RULES,
            clients: 0,
            ever_leased: true,
            idle_since: start,
            keep_until: None,
            agent: &agent,
        })
    };
    assert_eq!(ask(0, None), Decision::Hold(Reason::Asking));
    assert_eq!(ask(59, None), Decision::Hold(Reason::Asking));
    match ask(18, Some("connection refused")) {
        Decision::Hold(reason) => assert_eq!(
            reason.to_string(),
            "held for 42 s more: the agent does not answer (connection refused)"
        ),
        other => panic!("{other:?}"),
    }
    match ask(60, Some("connection refused")) {
        Decision::Stop(note) => {
            assert_eq!(note.to_string(), ": the agent does not answer (connection refused)");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sandbox_that_never_had_a_client_waits_for_its_first() {
    let start = Instant::now();
    let quiet = sessions(&[]);
    for (timeout, stops_after) in [(0, 5), (10, 10)] {
        let rules = Rules { timeout: SECOND * timeout, ..RULES };
        let at = |seconds: u32| {
            let now = start + SECOND * seconds;
            decide(&Inputs {
                now,
                rules,
                clients: 0,
                ever_leased: false,
                idle_since: start,
                keep_until: None,
                agent: &quiet,
            })
        };
        assert!(matches!(at(stops_after - 1), Decision::StopAt(..)));
        assert!(matches!(at(stops_after), Decision::Stop(_)));
    }
}

#[test]
fn a_timeout_without_end_does_not_overflow() {
    let rules = Rules { timeout: Duration::MAX, ..RULES };
    assert!(matches!(after(1000, rules, 0, &sessions(&[])).1, Decision::StopAt(..)));
}

fn kind() -> impl Strategy<Value = SessionKind> {
    prop_oneof![
        Just(SessionKind::Busy),
        (0_u32..6).prop_map(|attempt| SessionKind::Retry { attempt }),
        Just(SessionKind::WaitingForUser),
        Just(SessionKind::Idle),
    ]
}

proptest! {
    /// Never with a client, never before the timeout, never over a working session, and always in the end.
    #[test]
    fn stops_only_when_it_may(
        clients in 0_usize..3,
        ever_leased: bool,
        stop_on_active_sessions: bool,
        timeout in 0_u32..20,
        since in 0_u32..200,
        silent in prop::option::of(0_u32..200),
        kinds in prop::collection::vec(kind(), 0..5),
    ) {
        let start = Instant::now();
        let rules = Rules { timeout: SECOND * timeout, stop_on_active_sessions, ..RULES };
        let now = start + SECOND * since;
        let agent = match silent {
            Some(silent) => AgentView::NoAnswer { since: start + SECOND * silent, error: None },
            None => sessions(&kinds),
        };
        let inputs = Inputs { now, rules, clients, ever_leased, idle_since: start, keep_until: None, agent: &agent };
        let works = kinds.iter().any(|kind| match kind {
            SessionKind::Busy => true,
            SessionKind::Retry { attempt } => *attempt < RULES.max_session_retries,
            _ => false,
        });
        let agent_holds = !stop_on_active_sessions && match silent {
            Some(silent) => since < silent + 60,
            None => works,
        };
        let waits = if ever_leased { timeout } else { timeout.max(5) };
        match decide(&inputs) {
            Decision::Hold(_) => prop_assert!(clients > 0 || agent_holds),
            Decision::StopAt(at, _) => {
                prop_assert!(clients == 0 && !agent_holds && since < waits);
                prop_assert_eq!(at, start + SECOND * waits);
            }
            Decision::Stop(_) => prop_assert!(clients == 0 && !agent_holds && since >= waits),
        }
    }
}

#[test]
fn a_wish_to_keep_it_holds_until_its_time_is_over() {
    let quiet = sessions(&[]);
    let start = Instant::now();
    let decide_at = |at: u32, stop_on_active_sessions| {
        let rules = Rules { stop_on_active_sessions, ..RULES };
        let (now, keep_until) = (start + SECOND * at, Some(start + SECOND * 7200));
        decide(&Inputs {
            now,
            rules,
            clients: 0,
            ever_leased: true,
            idle_since: start,
            keep_until,
            agent: &quiet,
        })
    };
    for stop_on_active_sessions in [false, true] {
        for (at, text) in [(1000, "held: kept for 104 min"), (7199, "held: kept for 1 s")] {
            match decide_at(at, stop_on_active_sessions) {
                Decision::Hold(reason) => assert_eq!(reason.to_string(), text),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(decide_at(7200, stop_on_active_sessions), Decision::Stop(Note::default()));
    }
}

use microsandbox_network::policy::Protocol;

use super::*;

const LOCAL: [&str; 2] = ["9.9.9.9", "192.168.1.5"];
/// The gateway of slot 0.
const GATEWAY: &str = "172.16.0.1";

fn policy(profile: NetworkProfile, allow: &[&str], deny: &[&str]) -> NetworkPolicy {
    let list = |entries: &[&str]| entries.iter().map(|text| (*text).to_string()).collect();
    NetworkPolicy { profile, egress_allow: list(allow), egress_deny: list(deny), ..NetworkPolicy::default() }
}

fn compiled(policy: &NetworkPolicy) -> Compiled {
    let local = LOCAL.map(|address| address.parse().unwrap());
    compile(policy, GuestAddresses::of(0), &local).unwrap()
}

fn state() -> SharedState {
    compiled(&NetworkPolicy::default()).state()
}

fn reaches(policy: &NetworkPolicy, to: &str) -> bool {
    let compiled = compiled(policy);
    let to: SocketAddr = to.parse().unwrap();
    let allowed = compiled.engine_policy().evaluate_egress(to, Protocol::Tcp, &state()) == Action::Allow;
    let decision = compiled.decide(to, Protocol::Tcp, &state(), None);
    assert_eq!(decision.action == Action::Allow, allowed, "{to}: {decision:?}");
    allowed
}

fn resolves(policy: &NetworkPolicy, name: &str) -> bool {
    let compiled = compiled(policy);
    let domain = name.parse().unwrap();
    let allowed = compiled.engine_policy().evaluate_dns_query(&domain, Protocol::Udp, 53) == Action::Allow;
    assert_eq!(compiled.decide_name(name).unwrap().action == Action::Allow, allowed, "{name}");
    allowed
}

/// Public, private, the host in every spelling, link-local, metadata.
const PLACES: [&str; 17] = [
    "93.184.216.34:443",
    "[2606:4700::1]:443",
    "10.1.2.3:443",
    "192.168.1.7:443",
    "100.64.0.9:443",
    "[fd12::1]:443",
    "172.16.0.1:443",
    "[fd42:6d73:62::1]:443",
    "127.0.0.1:443",
    "[::1]:443",
    "0.0.0.0:443",
    "[::ffff:127.0.0.1]:443",
    "9.9.9.9:443",
    "192.168.1.5:443",
    "169.254.169.254:443",
    "100.100.100.200:443",
    "[64:ff9b::7f00:1]:443",
];

fn open(policy: &NetworkPolicy) -> Vec<&'static str> {
    PLACES.into_iter().filter(|to| reaches(policy, to)).collect()
}

#[test]
fn what_the_profiles_open() {
    use NetworkProfile::{Host, None, Private, Public};

    assert_eq!(open(&policy(None, &[], &[])), Vec::<&str>::new());
    assert_eq!(open(&policy(Public, &[], &[])), ["93.184.216.34:443", "[2606:4700::1]:443"]);
    let private = ["10.1.2.3:443", "192.168.1.7:443", "100.64.0.9:443", "[fd12::1]:443"];
    assert_eq!(open(&policy(Private, &[], &[])), private);
    assert_eq!(open(&policy(Host, &[], &[])), ["172.16.0.1:443", "[fd42:6d73:62::1]:443"]);
    for profile in [Public, Private, Host] {
        assert!(resolves(&policy(profile, &[], &[]), "example.com"), "{profile}");
    }
    assert!(!resolves(&policy(None, &[], &[]), "example.com"));
}

#[test]
fn wide_entries_do_not_open_the_host_or_metadata() {
    let none = NetworkProfile::None;
    let both =
        [&PLACES[..2], &["10.1.2.3:443", "192.168.1.7:443", "100.64.0.9:443", "[fd12::1]:443"]].concat();
    assert_eq!(open(&policy(none, &["*"], &[])), both);
    assert_eq!(open(&policy(none, &["0.0.0.0/0", "::/0"], &[])), both);
    assert_eq!(open(&policy(none, &["172.16.0.0/12"], &[])), Vec::<&str>::new());
    assert!(reaches(&policy(none, &["172.16.0.0/12"], &[]), "172.17.0.2:443"));
    assert_eq!(open(&policy(none, &["192.168.1.0/24"], &[])), ["192.168.1.7:443"]);
}

#[test]
fn an_entry_written_for_a_closed_place_opens_it() {
    let none = NetworkProfile::None;
    assert_eq!(open(&policy(none, &["169.254.169.254"], &[])), ["169.254.169.254:443"]);
    assert_eq!(open(&policy(none, &["192.168.1.5:443"], &[])), ["192.168.1.5:443"]);
    assert!(!reaches(&policy(none, &["192.168.1.5:443"], &[]), "192.168.1.5:80"));
    let host = policy(none, &["host:8080"], &[]);
    assert!(reaches(&host, &format!("{GATEWAY}:8080")));
    assert!(!reaches(&host, &format!("{GATEWAY}:8081")));
    // The host is an address, not a licence to ask for names.
    assert!(!resolves(&policy(none, &["host"], &[]), "example.com"));
}

#[test]
fn a_denial_wins() {
    let public = NetworkProfile::Public;
    let some = policy(public, &["93.184.216.34", "host"], &["93.184.0.0/16", "host:22", "*:25"]);
    assert!(!reaches(&some, "93.184.216.34:443"));
    assert!(reaches(&some, "93.185.216.34:443"));
    assert!(!reaches(&some, "93.185.216.34:25"));
    assert!(!reaches(&some, &format!("{GATEWAY}:22")));
    assert!(reaches(&some, &format!("{GATEWAY}:23")));
    assert!(resolves(&some, "example.com"), "denying the host leaves the resolver");
    assert_eq!(open(&policy(public, &["*", "host"], &["*"])), Vec::<&str>::new());
    assert!(!resolves(&policy(public, &["*"], &["*"]), "example.com"));
    assert!(resolves(&policy(public, &[], &["host"]), "example.com"));
}

#[test]
fn names() {
    let none = NetworkProfile::None;
    let allowed = policy(none, &["api.example.com:443", ".corp.example"], &["secret.corp.example"]);
    for (name, expected) in [
        ("api.example.com", true),
        ("API.example.com", true),
        ("example.com", false),
        ("other.example.com", false),
        ("corp.example", true),
        ("a.b.corp.example", true),
        ("evilcorp.example", false),
        ("secret.corp.example", false),
    ] {
        assert_eq!(resolves(&allowed, name), expected, "{name}");
    }
    let public = policy(NetworkProfile::Public, &[], &[".bad.example", "mail.example.com:25"]);
    assert!(!resolves(&public, "x.bad.example"));
    assert!(resolves(&public, "mail.example.com"), "only one port of it is denied");
    assert!(resolves(&public, "example.com"));
}

/// Rules for names make the engine look into first bytes, which holds some protocols up.
#[test]
fn without_names_in_the_lists_the_engine_looks_at_addresses_only() {
    let addresses = policy(NetworkProfile::Public, &["host:1", "10.0.0.0/8", "*"], &["10.1.0.0/16"]);
    assert!(!compiled(&addresses).engine_policy().has_domain_rules());
    let names = policy(NetworkProfile::Public, &["example.com"], &[]);
    assert!(compiled(&names).engine_policy().has_domain_rules());
}

fn found(compiled: &Compiled, name: &str, address: [u8; 4]) -> SharedState {
    use microsandbox_network::shared::ResolvedHostnameFamily;

    let state = compiled.state();
    let minute = std::time::Duration::from_mins(1);
    assert!(state.cache_resolved_hostname(name, ResolvedHostnameFamily::Ipv4, [address.into()], minute));
    state
}

#[test]
fn a_server_that_speaks_first_waits_only_where_a_name_alone_opens_it() {
    use NetworkProfile::{None, Private, Public};

    let waits = |policy: &NetworkPolicy, to: &str| {
        let (compiled, to) = (compiled(policy), to.parse::<SocketAddr>().unwrap());
        let IpAddr::V4(address) = to.ip() else { panic!("{to}") };
        let state = found(&compiled, "git.corp.example", address.octets());
        let decision = compiled.decide(to, Protocol::Tcp, &state, Option::None);
        assert_eq!(decision.action, Action::Allow, "{to}: {decision:?}");
        compiled.waits(to, &state)
    };
    let name_alone = policy(None, &["git.corp.example"], &[]);
    assert!(waits(&name_alone, "10.0.0.7:22") && waits(&name_alone, "10.0.0.7:443"));
    // As the entry of a private name has to be written anyway, in either order.
    for entries in [["git.corp.example", "10.0.0.0/8"], ["10.0.0.0/8", "git.corp.example"]] {
        assert!(!waits(&policy(None, &entries, &[]), "10.0.0.7:22"));
    }
    let one_port = policy(None, &["git.corp.example", "10.0.0.7:25"], &[]);
    assert!(!waits(&one_port, "10.0.0.7:25") && waits(&one_port, "10.0.0.7:22"));
    assert!(!waits(&policy(Public, &["git.corp.example"], &[]), "93.184.216.34:25"));
    assert!(!waits(&policy(Private, &[".corp.example"], &[]), "10.0.0.7:25"));
    // A denied name is looked for in what connections say, where they say one.
    let denied = policy(Public, &["host"], &[".ads.example", "one.example"]);
    for server in ["93.184.216.34:25", "93.184.216.34:22", "93.184.216.34:3306", "172.16.0.1:3306"] {
        assert!(!waits(&denied, server), "{server}");
    }
    assert!(waits(&denied, "93.184.216.34:443") && waits(&denied, "93.184.216.34:80"));
    // One that is denied for this port alone does resolve, so that addresses are known by it.
    assert!(waits(&policy(Public, &[], &["mail.example:25"]), "93.184.216.34:25"));
}

#[test]
fn what_is_denied_by_name_stays_closed_at_the_ports_of_servers_that_speak_first() {
    let allow = ["git.corp.example", "10.0.0.0/8"];
    for deny in ["git.corp.example", ".corp.example"] {
        let compiled = compiled(&policy(NetworkProfile::Public, &allow[..1], &[deny]));
        assert_eq!(compiled.decide_name("git.corp.example").unwrap().action, Action::Deny, "{deny}");
        assert!(!compiled.allows_saying(
            "93.184.216.34:443".parse().unwrap(),
            &compiled.state(),
            "git.corp.example"
        ));
    }
    // It resolves, and its address is closed at that port, whatever allows it.
    let compiled = compiled(&policy(NetworkProfile::None, &allow, &["git.corp.example:22"]));
    let state = found(&compiled, "git.corp.example", [10, 0, 0, 7]);
    let action = |to: &str| compiled.decide(to.parse().unwrap(), Protocol::Tcp, &state, None).action;
    assert_eq!((action("10.0.0.7:22"), action("10.0.0.7:25")), (Action::Deny, Action::Allow));
    assert_eq!(action("10.0.0.8:22"), Action::Allow);
}

/// `None` for what is allowed.
fn told(decision: &Decision) -> Option<String> {
    let Decision { action: Action::Deny, rule, opens } = decision else { return None };
    Some(
        opens.as_ref().map_or_else(
            || rule.clone(),
            |entry| format!("{rule}; egress-allow: [\"{entry}\"] would open it"),
        ),
    )
}

#[test]
fn an_address_is_what_its_name_may() {
    let compiled = compiled(&policy(NetworkProfile::None, &["api.example.com:443"], &[]));
    let (name, to) = ("api.example.com", |port| SocketAddr::from(([44, 55, 66, 10], port)));
    let state = found(&compiled, name, [44, 55, 66, 10]);
    let decide = |port| compiled.decide(to(port), Protocol::Tcp, &state, Some(name));
    let allowed = decide(443);
    assert_eq!(
        (allowed.action, allowed.rule.as_str()),
        (Action::Allow, "egress-allow has `api.example.com:443`")
    );
    let denied = decide(22);
    assert_eq!((denied.action, denied.opens.as_deref()), (Action::Deny, Some("api.example.com:22")));
}

#[test]
fn a_denial_is_explained_with_what_would_open_it() {
    let why = |policy: &NetworkPolicy, to: &str| {
        told(&compiled(policy).decide(to.parse().unwrap(), Protocol::Tcp, &state(), None))
    };
    let none = NetworkProfile::None;
    let empty = policy(none, &[], &[]);
    let reason = "outside of profile none; egress-allow: [\"93.184.216.34:443\"] would open it";
    assert_eq!(why(&empty, "93.184.216.34:443").unwrap(), reason);
    let public = policy(NetworkProfile::Public, &[], &["8.8.0.0/16"]);
    assert_eq!(why(&public, "8.8.8.8:53").unwrap(), "egress-deny has `8.8.0.0/16`");
    let host = "the host; egress-allow: [\"host:8080\"] would open it";
    assert_eq!(why(&public, &format!("{GATEWAY}:8080")).unwrap(), host);
    let own = "an address of the host itself; egress-allow: [\"9.9.9.9:80\"] would open it";
    assert_eq!(why(&public, "9.9.9.9:80").unwrap(), own);
    let loopback = why(&public, "127.0.0.1:80").unwrap();
    assert!(loopback.contains("egress-allow: [\"host:80\"]"), "{loopback}");
    let api = policy(none, &["example.com:443"], &[]);
    assert!(why(&api, "93.184.216.34:443").is_some(), "no name led here");

    let name = |policy: &NetworkPolicy, name: &str| told(&compiled(policy).decide_name(name).unwrap());
    let reason = "outside of profile none; egress-allow: [\"example.com\"] would open it";
    assert_eq!(name(&empty, "Example.com").unwrap(), reason);
    let denied = policy(NetworkProfile::Public, &[], &[".bad.example"]);
    assert_eq!(name(&denied, "x.bad.example").unwrap(), "egress-deny has `.bad.example`");

    // What a reason proposes does open it.
    for to in ["93.184.216.34:443", "9.9.9.9:80", "172.16.0.1:8080", "10.0.0.1:1", "169.254.169.254:80"] {
        let reason = why(&empty, to).unwrap();
        let entry = reason.split('"').nth(1).unwrap();
        assert!(reaches(&policy(none, &[entry], &[]), to), "{reason}");
    }
}

#[test]
fn a_card_is_needed_when_something_is_open() {
    let none = NetworkProfile::None;
    assert!(!needs_card(&policy(none, &[], &[])));
    assert!(!needs_card(&policy(none, &["", " "], &["*"])));
    assert!(needs_card(&policy(none, &["host:80"], &[])));
    assert!(needs_card(&policy(NetworkProfile::Public, &[], &[])));
}

#[test]
fn mistakes_are_found_before_anything_starts() {
    assert_eq!(check(&policy(NetworkProfile::Public, &["host:80", ""], &["*:25"])), Ok(()));
    assert!(check(&policy(NetworkProfile::Public, &["10.0.0.0/40"], &[])).is_err());
    assert!(check(&policy(NetworkProfile::Public, &[], &["a b"])).is_err());
    let resolvers = |entries: &[&str]| {
        let dns_servers = entries.iter().map(|text| (*text).to_string()).collect();
        check(&NetworkPolicy { dns_servers, ..NetworkPolicy::default() })
    };
    assert_eq!(resolvers(&["1.1.1.1", "1.1.1.1:5353", "[2606:4700::1111]:53", "dns.example:53"]), Ok(()));
    let error = resolvers(&["1.1.1.1:dns"]).unwrap_err().to_string();
    assert!(error.starts_with("dns-servers: `1.1.1.1:dns`"), "{error}");
}

#[test]
fn the_hosts_names_lead_to_the_gateway() {
    let compiled = compiled(&policy(NetworkProfile::Public, &[], &[]));
    let line = |address: &str, name: &str| (address.to_string(), name.to_string());
    let v4 = [line(GATEWAY, "host.microsandbox.internal"), line(GATEWAY, "host.agents-sandbox.internal")];
    assert_eq!(compiled.hosts(false), v4);
    assert_eq!(compiled.hosts(true).len(), 4);
}

//! Docker inside a sandbox: Debian's own engine, without root for `dev`, on the sandbox's own disk, behind
//! the sandbox's policy.

use crate::agents::note_times;
use crate::registry::Registry;
use crate::world::World;
use crate::{FIRST_PATIENCE, PATIENCE};

/// Starts the sandbox; how long its engine took, as the program says it.
fn engine_starts(world: &World) -> String {
    let started = world.spawn(&["--log-level", "verbose", "exec", "--", "true"]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(started.status.success(), "{said}");
    let took = said.lines().find_map(|line| Some(line.split_once("starting docker in the sandbox (")?.1));
    took.unwrap_or_else(|| panic!("no engine was started: {said}")).trim_end_matches(')').into()
}

/// The host, as guests reach it where the policy opens it.
const HOST: &str = "host.agents-sandbox.internal";

/// A container trusts what its image does. What docs/docker.md says to write gives it what the sandbox trusts, for as
/// long as it runs or for one step of a build, and a build without it is what it is elsewhere.
fn certificates_are_given_to_those_who_need_them(world: &World, run: &dyn Fn(&str) -> String) {
    let ca = "/etc/ssl/certs/ca-certificates.crt";
    world.write(
        "trusting/Dockerfile",
        &format!(
            "FROM base\nRUN --mount=type=secret,id=ca,target={ca},mode=0444 [\"/bin/bash\", \"-c\", \"cat {ca} > /seen || echo own > /seen\"]\n"
        ),
    );
    let same = "cmp - /etc/ssl/certs/ca-certificates.crt && echo same";
    assert_eq!(run(&format!("docker run --rm -v {ca}:{ca}:ro made /bin/cat {ca} | {same}")), "same\n");
    run(&format!("docker build --secret id=ca,src={ca} --tag trusting trusting"));
    assert_eq!(run(&format!("docker run --rm trusting /bin/cat /seen | {same}")), "same\n");
    let left = format!("docker run --rm trusting /bin/bash -c '[ -s {ca} ] && echo left || echo gone'");
    assert_eq!(run(&left), "gone\n");
    run("docker build --no-cache --tag elsewhere trusting");
    assert_eq!(run("docker run --rm elsewhere /bin/cat /seen"), "own\n");
}

#[test]
fn docker_builds_runs_and_pulls_through_the_policy() {
    let (open, closed) = (Registry::start(), Registry::start());
    let world = World::new("docker");
    world.open_port(open.port);
    world.add_settings("agent: pi\ndocker: true\n");
    // A registry without TLS is one that the engine must be told about.
    world.write(
        ".agents-sandbox/Dockerfile",
        "FROM agents-sandbox/runner-base\nRUN mkdir /etc/docker && echo '{\"insecure-registries\": [\"172.16.0.0/12\"]}' > /etc/docker/daemon.json\n",
    );
    world.succeeds(&["build"], FIRST_PATIENCE);
    let run = |script: &str| world.succeeds(&["exec", "--", "bash", "-c", script], PATIENCE);
    let first = engine_starts(&world);

    assert_eq!(run("id -un; docker info --format '{{.Driver}}'"), "dev\noverlay2\n");

    // An image of what the guest itself has: no registry is needed.
    run("programs='/bin/bash /bin/cat'
         tar -chf - $programs $(ldd $programs | grep -o '/lib[^ )]*' | sort -u) | docker import - base");
    world.write(
        "inner/Dockerfile",
        "FROM base\nRUN [\"/bin/bash\", \"-c\", \"echo built > /made\"]\nCOPY file /\n",
    );
    world.write("inner/file", "copied\n");
    run("docker build --tag made inner");
    assert_eq!(run("docker run --rm made /bin/cat /made /file"), "built\ncopied\n");
    assert_eq!(run("docker run --rm -v /workspace:/w made /bin/cat /w/inner/file"), "copied\n");

    certificates_are_given_to_those_who_need_them(&world, &run);

    // A container's connections are the sandbox's: what is open to it, and nothing else.
    let connect = |port: u16| {
        let script = format!(
            "gateway=$(ip route show default | cut -d' ' -f3)
             docker run --rm made /bin/bash -c \"exec 3<>/dev/tcp/$gateway/{port}\" 2>/dev/null && echo open || echo closed"
        );
        run(&script)
    };
    assert_eq!(connect(open.port), "open\n");
    assert_eq!(connect(closed.port), "closed\n");

    let pull = |port: u16| run(&format!("docker pull --quiet {HOST}:{port}/hello 2>&1 || echo refused"));
    assert_eq!(pull(open.port), format!("{HOST}:{}/hello:latest\n", open.port));
    let file =
        format!("id=$(docker create {HOST}:{}/hello none) && docker cp $id:/hello - | tar -xO", open.port);
    assert_eq!(run(&file), "pulled");
    let refused = pull(closed.port);
    assert!(refused.ends_with("refused\n"), "{refused}");
    assert_eq!(closed.asked(), 0, "nothing reached it");
    assert!(open.asked() > 0);

    // The engine comes back with the next boot, and what it held is there.
    world.succeeds(&["stop", "--cold"], PATIENCE);
    let again = engine_starts(&world);
    note_times(&format!("docker: first start {first}, after another boot {again}"));
    assert_eq!(run("docker run --rm made /bin/cat /made"), "built\n");
}

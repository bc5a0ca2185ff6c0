use insta::assert_snapshot;

use crate::environment::TestEnvironment;

/// Every command there is, as `tree` lists them.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["run"],
    &["shell"],
    &["exec"],
    &["list"],
    &["stop"],
    &["kill"],
    &["logs"],
    &["build"],
    &["build", "dockerfile"],
    &["prune"],
    &["df"],
    &["sandbox"],
    &["sandbox", "list"],
    &["sandbox", "run"],
    &["sandbox", "shell"],
    &["sandbox", "stop"],
    &["sandbox", "kill"],
    &["sandbox", "remove"],
    &["sandbox", "inspect"],
    &["sandbox", "prune"],
    &["image"],
    &["image", "list"],
    &["image", "build"],
    &["image", "inspect"],
    &["image", "remove"],
    &["image", "prune"],
    &["volume"],
    &["volume", "list"],
    &["volume", "migrate"],
    &["volume", "reset"],
    &["volume", "edit"],
    &["volume", "remove"],
    &["volume", "inspect"],
    &["volume", "prune"],
    &["storage"],
    &["storage", "df"],
    &["storage", "list"],
    &["config"],
    &["config", "show"],
    &["runtime"],
    &["runtime", "status"],
    &["runtime", "install"],
    &["runtime", "remove"],
    &["ports", "list"],
    &["ports", "add"],
    &["ports", "remove"],
    &["doctor"],
    &["upgrade"],
    &["tree"],
    &["completion"],
    &["version"],
];

#[test]
fn every_command_has_help() {
    let environment = TestEnvironment::new();
    for command in COMMANDS {
        let words: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let help = environment.run(&words).success();
        assert!(help.contains("Usage: agents-sandbox"), "{command:?}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command:?} has long lines:\n{help}");
    }
}

#[test]
fn twins_have_one_definition() {
    let environment = TestEnvironment::new();
    for (one, other) in [
        (vec!["run"], vec!["sandbox", "run"]),
        (vec!["list"], vec!["sb", "ls"]),
        (vec!["build"], vec!["img", "build"]),
    ] {
        let help = |mut words: Vec<&'static str>| {
            words.push("--help");
            let text = environment.run(&words).success();
            // All but the usage, which names the path that was typed, and the examples.
            text.lines().filter(|line| !line.contains("agents-sandbox")).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(help(one), help(other));
    }
}

#[test]
fn the_first_page() {
    assert_snapshot!(TestEnvironment::new().run(&["-h"]), @r#"
    Run a coding agent in a virtual machine of its own

    Usage: agents-sandbox [OPTIONS] [AGENT_ARG]... [-- AGENT_ARG...]
           agents-sandbox <COMMAND>

    Commands:
      run         Run the agent on the project in this folder (the default command)
      shell       Open a login shell in the project's sandbox [alias: sh]
      exec        Run one command in the project's sandbox
      list        List all sandboxes [alias: ls]
      stop        Stop the project's sandbox; the next run goes on where it was
      kill        Power the project's sandbox off at once
      logs        Show the logs of a sandbox
      build       Build the image of the project's sandbox
      prune       Remove sandboxes that were not used for long, with their homes and images
      df          Show what everything takes on disk, and what `prune` would free
      session     Agents and shells that outlive their terminal [alias: sessions]
      worktree    Everything that works on git worktrees inside the sandbox
      sandbox     Everything that works on sandboxes [alias: sb]
      image       Everything that works on images [alias: img]
      volume      Everything that works on home volumes [alias: vol]
      storage     Everything that works on storage
      network     What a sandbox may reach: see what it tried, and change the rules [alias: net]
      ports       Ports of this machine that lead into sandboxes
      config      Everything that works on settings [alias: cfg]
      runtime     Everything that works on what runs sandboxes
      doctor      Check that this computer has all that is needed
      upgrade     Put a newer release in the place of this program
      tree        Print all commands and flags as a tree
      completion  Print a script that completes this command line in a shell
      version     Print the name and the version of this program
      help        Print this message or the help of the given subcommand(s)

    Arguments:
      [AGENT_ARG]...  Words for the agent, passed on as they are; put what starts with a dash after `--`

    Options:
          --agent <NAME>            The agent whose sandbox is meant [default: opencode, or what the
                                    settings say] [possible values: opencode, opencode2, pi,
                                    claude-code]
          --keep <DURATION>         Keep the sandbox running for at least this long, such as 2h, whoever
                                    leaves
      -n, --dry-run                 Say what would be done, and do nothing
          --dry-run-vm              Build the image and make the home, but do not make, start or use the
                                    machine
      -w, --worktree <NAME[:BASE]>  Work in a git worktree inside the sandbox, made from BASE if it is
                                    new
          --new                     Begin another, also where one waits that nobody is attached to
      -s, --serve-only              Open the agent's server to this computer's other clients, and wait
                                    until Ctrl-D or Ctrl-C
          --notify[=<MODE>]         Tell me when the agent waits for me, is done, or has failed, until I
                                    leave [possible values: on, off, desktop, audio, bell, sound]
      -h, --help                    Print help (see more with '--help')
      -V, --version                 Print version

    Everywhere:
      -y, --yes                Answer yes to every question
      -q, --quiet              Print no results and no tables
      -l, --log-level <LEVEL>  Show messages of this importance and above: error, warning, info (the
                               default) or verbose

    Image:
      -r, --rebuild                  Build the image anew, without the layers of earlier builds
          --agent-version <VERSION>  Keep the agent at this version; `latest` takes the newest again
          --docker                   Put a Docker engine into the image

    Machine:
      -c, --cpus <COUNT>            Virtual CPUs; 0 is all the machine has [default: 0]
      -m, --memory <SIZE>           Memory, such as 512M or 8G [default: 4G]
          --disk-size <SIZE>        What the sandbox may write outside home, workspace and /tmp
                                    [default: 4G]
          --tmp-size <SIZE>         Size of /tmp, which is memory [default: 2G]
          --workspace-quota <SIZE>  What the sandbox may add to the checkout [default: 16G]

    Network:
          --network <PROFILE>            What the sandbox may reach; replaces profile, lists, provider
                                         and resolvers of all files [default: none] [possible values:
                                         none, private, host, public]
          --dns <LIST>                   Resolvers to ask, as ADDRESS or ADDRESS:PORT; several with
                                         commas, or repeated
      -p, --publish <[BIND:]HOST:GUEST>  Let a port of this machine lead to one of the sandbox; loopback
                                         unless BIND says otherwise. Repeatable
          --ssh-agent                    Let programs in the sandbox use the keys of your ssh-agent

    Examples:
      agents-sandbox                             run the agent on the project in this folder
      agents-sandbox -- run "fix the test"      give the agent its words, here for one task
      agents-sandbox --agent pi --memory 8G      another agent, a larger machine
      agents-sandbox shell                       look around in the sandbox
      agents-sandbox exec -- git status          run one command in it
      agents-sandbox list                        see all sandboxes
      agents-sandbox doctor                      find out what is missing on this computer
    "#);
}

#[test]
fn the_tree_shows_everything_on_aligned_lines() {
    let tree = TestEnvironment::new().run(&["tree"]).success();
    assert_snapshot!(tree.lines().filter(|line| !line.contains("│   ")).collect::<Vec<_>>().join("\n"), @"
    agents-sandbox                                 Run a coding agent in a virtual machine of its own
    ├── -y, --yes                                  Answer yes to every question
    ├── -q, --quiet                                Print no results and no tables
    ├── -l, --log-level <LEVEL>                    Show messages of this importance and above: error, warning, info (the default) or verbose
    ├── --agent <NAME>                             The agent whose sandbox is meant [default: opencode, or what the settings say]
    ├── --keep <DURATION>                          Keep the sandbox running for at least this long, such as 2h, whoever leaves
    ├── -n, --dry-run                              Say what would be done, and do nothing
    ├── --dry-run-vm                               Build the image and make the home, but do not make, start or use the machine
    ├── -r, --rebuild                              Build the image anew, without the layers of earlier builds
    ├── --agent-version <VERSION>                  Keep the agent at this version; `latest` takes the newest again
    ├── --docker                                   Put a Docker engine into the image
    ├── -c, --cpus <COUNT>                         Virtual CPUs; 0 is all the machine has [default: 0]
    ├── -m, --memory <SIZE>                        Memory, such as 512M or 8G [default: 4G]
    ├── --disk-size <SIZE>                         What the sandbox may write outside home, workspace and /tmp [default: 4G]
    ├── --tmp-size <SIZE>                          Size of /tmp, which is memory [default: 2G]
    ├── --workspace-quota <SIZE>                   What the sandbox may add to the checkout [default: 16G]
    ├── --network <PROFILE>                        What the sandbox may reach; replaces profile, lists, provider and resolvers of all files [default: none]
    ├── --dns <LIST>                               Resolvers to ask, as ADDRESS or ADDRESS:PORT; several with commas, or repeated
    ├── -p, --publish <[BIND:]HOST:GUEST>          Let a port of this machine lead to one of the sandbox; loopback unless BIND says otherwise. Repeatable
    ├── --ssh-agent                                Let programs in the sandbox use the keys of your ssh-agent
    ├── -w, --worktree <NAME[:BASE]>               Work in a git worktree inside the sandbox, made from BASE if it is new
    ├── --new                                      Begin another, also where one waits that nobody is attached to
    ├── -s, --serve-only                           Open the agent's server to this computer's other clients, and wait until Ctrl-D or Ctrl-C
    ├── --notify[=<MODE>]                          Tell me when the agent waits for me, is done, or has failed, until I leave
    ├── run                                        Run the agent on the project in this folder (the default command) (also: sandbox run)
    ├── shell                                      Open a login shell in the project's sandbox (alias: sh) (also: sandbox shell)
    ├── exec                                       Run one command in the project's sandbox
    ├── list                                       List all sandboxes (alias: ls) (also: sandbox list)
    ├── stop                                       Stop the project's sandbox; the next run goes on where it was (also: sandbox stop)
    ├── kill                                       Power the project's sandbox off at once (also: sandbox kill)
    ├── logs                                       Show the logs of a sandbox
    ├── build                                      Build the image of the project's sandbox (also: image build)
    ├── prune                                      Remove sandboxes that were not used for long, with their homes and images
    ├── df                                         Show what everything takes on disk, and what `prune` would free (also: storage df)
    ├── session                                    Agents and shells that outlive their terminal (alias: sessions)
    ├── worktree                                   Everything that works on git worktrees inside the sandbox
    ├── sandbox                                    Everything that works on sandboxes (alias: sb)
    ├── image                                      Everything that works on images (alias: img)
    ├── volume                                     Everything that works on home volumes (alias: vol)
    ├── storage                                    Everything that works on storage
    ├── network                                    What a sandbox may reach: see what it tried, and change the rules (alias: net)
    ├── ports                                      Ports of this machine that lead into sandboxes
    ├── config                                     Everything that works on settings (alias: cfg)
    ├── runtime                                    Everything that works on what runs sandboxes
    ├── doctor                                     Check that this computer has all that is needed
    ├── upgrade                                    Put a newer release in the place of this program
    ├── tree                                       Print all commands and flags as a tree
    ├── completion                                 Print a script that completes this command line in a shell
    ├── version                                    Print the name and the version of this program
    └── [AGENT_ARG]...                             Words for the agent, passed on as they are; put what starts with a dash after `--`
    ");
    assert!(tree.contains("│   ├── --cpus") || tree.contains("│   ├── -c, --cpus <COUNT>"), "{tree}");
    assert!(!tree.contains("── reference"), "hidden commands stay hidden: {tree}");
}

#[test]
fn the_reference_is_current() {
    let now = TestEnvironment::new().run(&["reference"]).success();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(kept == now, "docs/reference.md is not current: agents-sandbox reference > docs/reference.md");
}

/// A newcomer tries them as they stand.
#[test]
fn examples_of_exec_run_what_the_image_has() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let tools = read("crates/sandbox-image/src/compose/stages/base-tools.dockerfile");
    // Of Debian itself, or of a package that is called otherwise (yq brings python3, iproute2 ss).
    let known = |program: &str| {
        ["env", "python3", "sh", "ss"].contains(&program)
            || tools.split_whitespace().any(|word| word == program)
    };
    let mut seen = 0;
    for file in ["README.md", "docs/reference.md", "docs/images.md"] {
        for line in read(file).lines().filter(|line| line.contains("agents-sandbox exec ")) {
            let Some((_, command)) = line.split_once(" -- ") else { continue };
            let program = command.split_whitespace().next().unwrap_or_default();
            assert!(known(program), "{file}: the image has no `{program}`: {line}");
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen} examples");
}

#[test]
fn manual_pages_are_made() {
    let environment = TestEnvironment::new();
    let dir = environment.path("man");
    environment.run(&["man".as_ref(), dir.as_os_str()]).success();
    let page = std::fs::read_to_string(dir.join("agents-sandbox.1")).unwrap();
    assert!(page.contains(".TH agents-sandbox 1"), "{page}");
    assert!(dir.join("agents-sandbox-sandbox-remove.1").exists());
}

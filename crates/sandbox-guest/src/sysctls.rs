/// Settings that the kernel leaves too low, or too closed, for a machine that development happens on. In the
/// agent's own machine nothing is kept from it by them.
const SYSCTLS: [(&str, &str); 3] = [
    // Everybody may ping.
    ("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"),
    // Everybody may listen on any port: a web server on 80 needs no root.
    ("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"),
    // Watchers of editors, bundlers and test runners take one each.
    ("/proc/sys/fs/inotify/max_user_instances", "1024"),
];

/// Sets what can be set: a kernel without the setting, or a caller who may not, works without it.
pub fn apply() {
    for (path, value) in SYSCTLS {
        let _ = fs_err::write(path, value);
    }
}

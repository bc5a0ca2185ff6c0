use sandbox_model::{GUEST_SSH_AGENT_ASIDE, SandboxSpec, secret_environment, ssh_agent_environment};

/// What the guest program sets from the user's account, whatever an image says.
const OF_THE_ACCOUNT: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// The environment of every command: the image's own, what stands in for secrets, then the sandbox's.
pub fn of_sandbox(image: &[(String, String)], spec: &SandboxSpec) -> Vec<(String, String)> {
    image
        .iter()
        .cloned()
        .chain(secret_environment(&spec.secrets))
        .chain(ssh_agent_environment(spec.ssh_agent, GUEST_SSH_AGENT_ASIDE))
        .chain(spec.env.iter().map(|(key, value)| (key.clone(), value.clone())))
        .filter(|(key, _)| !OF_THE_ACCOUNT.contains(&key.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_comes_after_the_image_and_neither_names_the_user() {
        let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
        let image = [pair("PATH", "/bin"), pair("HOME", "/root")];
        let mut spec = crate::command::tests::spec();
        spec.env = [pair("PATH", "/usr/bin"), pair("USER", "x")].into();
        assert_eq!(of_sandbox(&image, &spec), [pair("PATH", "/bin"), pair("PATH", "/usr/bin")]);
        spec.secrets = vec![crate::command::tests::secret()];
        assert!(of_sandbox(&image, &spec).contains(&pair("TOKEN", "$MSB_TOKEN")));
        let agent = pair("SSH_AUTH_SOCK", GUEST_SSH_AGENT_ASIDE);
        assert!(!of_sandbox(&image, &spec).contains(&agent));
        spec.ssh_agent = true;
        assert!(of_sandbox(&image, &spec).contains(&agent));
    }
}

use std::collections::BTreeMap;

/// What the guest program sets from the user's account, whatever an image says.
const OF_THE_ACCOUNT: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// The environment of every command: the image's own, then the sandbox's.
pub fn of_sandbox(image: &[(String, String)], sandbox: &BTreeMap<String, String>) -> Vec<(String, String)> {
    image
        .iter()
        .cloned()
        .chain(sandbox.iter().map(|(key, value)| (key.clone(), value.clone())))
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
        let sandbox = BTreeMap::from([pair("PATH", "/usr/bin"), pair("USER", "x")]);
        assert_eq!(of_sandbox(&image, &sandbox), [pair("PATH", "/bin"), pair("PATH", "/usr/bin")]);
    }
}

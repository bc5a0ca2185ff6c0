use sandbox_model::{SECRET_HOST_FORMS, SecretHost, SecretValue};

use super::definition::{SecretDefinition, SecretSource, check_name};

/// One line of `env.secret`: `KEY=value@host`, where the last `@` separates. `None` where no host is named.
pub fn line(line: &str) -> Result<Option<(String, SecretDefinition)>, (String, &'static str)> {
    let form = "write KEY=value@host, one to a line";
    let (name, rest) = line.split_once('=').ok_or(("this line has no `=`".to_owned(), form))?;
    let name = name.trim();
    check_name(name).map_err(|message| (message, form))?;
    let Some((value, host)) = rest.rsplit_once('@') else { return Ok(None) };
    if host.trim().is_empty() {
        return Ok(None);
    }
    // What stands behind the last `@` may be the end of a value: it is not repeated.
    let host: SecretHost = host
        .trim()
        .parse()
        .map_err(|error| (format!("the host of {name} cannot be used: {error}"), SECRET_HOST_FORMS))?;
    let source = SecretSource::Literal(SecretValue::new(value.into()));
    Ok(Some((name.into(), SecretDefinition::new(source, vec![host]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_at_separates() {
        let (name, definition) = line("TOKEN=a@b=c@api.example.com").unwrap().unwrap();
        assert_eq!(name, "TOKEN");
        assert_eq!(definition.source, SecretSource::Literal(SecretValue::new("a@b=c".into())));
        assert_eq!(definition.hosts, ["api.example.com".parse().unwrap()]);
        assert!(line("TOKEN=abc").unwrap().is_none());
        assert!(line("TOKEN=abc@").unwrap().is_none());
        for wrong in ["TOKEN", "1A=x@h", "PATH=x@h", "A=x@10.0.0.1"] {
            assert!(line(wrong).is_err(), "{wrong}");
        }
    }
}

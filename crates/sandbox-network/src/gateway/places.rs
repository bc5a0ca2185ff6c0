//! A request's head with the values in their places. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;

use super::forms::in_query;
use super::table::{Given, HostTable};

/// Why a request does not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The stand-in of this secret may not go to this host.
    Kept { secret: String },
    /// With its values in it, it is no request any more.
    Malformed,
}

/// Puts the values in, or says why the request may not leave.
pub(super) fn fill(head: &mut Parts, host: &HostTable) -> Result<(), Refusal> {
    refuse_others(head, host)?;
    for given in &host.given {
        fields(&mut head.headers, given)?;
        if given.query {
            query(head, given)?;
        }
    }
    Ok(())
}

/// What stands in a head is asked about in every form in which it would be put in.
fn refuse_others(head: &Parts, host: &HostTable) -> Result<(), Refusal> {
    let target = head.uri.to_string();
    for (placeholder, secret) in &host.kept {
        let listed = |text: &[u8]| has(text, placeholder, &host.given);
        let in_field = |value: &HeaderValue| {
            listed(value.as_bytes()) || basic(value).is_some_and(|plain| listed(plain.as_bytes()))
        };
        let in_target = listed(target.as_bytes()) || listed(target.replace("%24", "$").as_bytes());
        if in_target || head.headers.values().any(in_field) {
            return Err(Refusal::Kept { secret: secret.clone() });
        }
    }
    Ok(())
}

/// Whether a text has a stand-in, and not one of those that are given and begin with the same letters.
fn has(text: &[u8], placeholder: &str, given: &[Given]) -> bool {
    let word = placeholder.as_bytes();
    let longer = |rest: &[u8]| {
        given.iter().any(|given| {
            given.placeholder.len() > placeholder.len() && rest.starts_with(given.placeholder.as_bytes())
        })
    };
    (0..text.len()).any(|at| text[at..].starts_with(word) && !longer(&text[at..]))
}

fn fields(headers: &mut HeaderMap, given: &Given) -> Result<(), Refusal> {
    let names: Vec<HeaderName> = match &given.fields {
        None => headers.keys().cloned().collect(),
        Some(fields) => fields.iter().filter_map(|field| field.parse().ok()).collect(),
    };
    for name in names {
        let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        let filled = values.iter().map(|value| field(value, given)).collect::<Result<Vec<_>, _>>()?;
        let is_used = filled.iter().any(Option::is_some);
        if !(is_used || given.owns_fields && !values.is_empty()) {
            continue;
        }
        // A field of the guest's own would be beside ours, or in its place. What another secret has put in stays.
        let keeps = |value: &HeaderValue| given.fields.is_none() || value.is_sensitive();
        let lines: Vec<_> = values
            .into_iter()
            .zip(filled)
            .filter_map(|(value, filled)| filled.or_else(|| keeps(&value).then_some(value)))
            .collect();
        headers.remove(&name);
        for value in lines {
            headers.append(&name, value);
        }
    }
    Ok(())
}

/// The field with the value in it, marked as one; `None` where it has no stand-in.
fn field(value: &HeaderValue, given: &Given) -> Result<Option<HeaderValue>, Refusal> {
    let put_in = |text: &str| text.replace(&given.placeholder, given.value.reveal());
    let text = value.to_str().unwrap_or_default();
    let filled = if text.contains(&given.placeholder) {
        put_in(text)
    } else {
        match basic(value).filter(|plain| plain.contains(&given.placeholder)) {
            Some(plain) => format!("Basic {}", STANDARD.encode(put_in(&plain))),
            None => return Ok(None),
        }
    };
    let mut value = HeaderValue::from_str(&filled)
        .or_else(|_| HeaderValue::from_bytes(filled.as_bytes()))
        .map_err(|_| Refusal::Malformed)?;
    // It is not kept in the table of fields that HTTP/2 sends again.
    value.set_sensitive(true);
    Ok(Some(value))
}

/// User and password of basic authentication (RFC 7617, 2).
fn basic(value: &HeaderValue) -> Option<String> {
    let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    String::from_utf8(STANDARD.decode(text.trim()).ok()?).ok()
}

fn query(head: &mut Parts, given: &Given) -> Result<(), Refusal> {
    let Some((path, text)) = head.uri.path_and_query().and_then(|both| Some((both.path(), both.query()?)))
    else {
        return Ok(());
    };
    let value = in_query(given.value.reveal());
    let filled = text.replace(&given.placeholder, &value).replace(&in_query(&given.placeholder), &value);
    if filled == text {
        return Ok(());
    }
    let target: PathAndQuery = format!("{path}?{filled}").parse().map_err(|_| Refusal::Malformed)?;
    let mut parts = head.uri.clone().into_parts();
    parts.path_and_query = Some(target);
    head.uri = hyper::Uri::from_parts(parts).map_err(|_| Refusal::Malformed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hyper::Request;
    use sandbox_model::{CREDENTIAL_HEADERS, SecretSpec, SecretValue};

    use super::super::table::Table;
    use super::*;

    const VALUE: &str = "sk-real-0123456789";

    fn table(change: impl FnOnce(&mut SecretSpec)) -> HostTable {
        let mut key = SecretSpec {
            name: "KEY".into(),
            hosts: vec!["api.example.com".parse().unwrap()],
            headers: CREDENTIAL_HEADERS.map(String::from).to_vec(),
            query: false,
            body: false,
            fingerprint: String::new(),
        };
        let other = SecretSpec {
            name: "KEY_OF_OTHERS".into(),
            hosts: vec!["other.example.com".parse().unwrap()],
            ..key.clone()
        };
        change(&mut key);
        let values = [("KEY", VALUE), ("KEY_OF_OTHERS", "sk-others-0123456789")]
            .map(|(name, value)| (name.to_string(), SecretValue::new(value.into())));
        Arc::new(Table::new(&[key, other], &values.into()).unwrap()).of_host("api.example.com", 443)
    }

    fn filled(table: &HostTable, target: &str, fields: &[(&str, &str)]) -> Result<Parts, Refusal> {
        let mut request = Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        fill(&mut head, table).map(|()| head)
    }

    fn all<'a>(head: &'a Parts, name: &str) -> Vec<&'a str> {
        head.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn the_value_stands_where_the_definition_says() {
        let bearer = ("authorization", "Bearer $MSB_KEY");
        let head = filled(&table(|_| {}), "/?k=$MSB_KEY", &[bearer, ("origin", "$MSB_KEY")]).unwrap();
        assert_eq!(all(&head, "authorization"), [format!("Bearer {VALUE}")]);
        assert_eq!((all(&head, "origin"), head.uri.query()), (vec!["$MSB_KEY"], Some("k=$MSB_KEY")));
        let basic = format!("basic {}", STANDARD.encode("me:$MSB_KEY"));
        let head = filled(&table(|_| {}), "/", &[("authorization", &basic)]).unwrap();
        assert_eq!(
            all(&head, "authorization"),
            [format!("Basic {}", STANDARD.encode(format!("me:{VALUE}")))]
        );
        assert!(head.headers["authorization"].is_sensitive());

        let everywhere = table(|key| (key.headers, key.query) = (vec!["*".into()], true));
        for target in ["/?k=$MSB_KEY", "/?k=%24MSB_KEY", "https://api.example.com/?k=%24MSB_KEY"] {
            let head = filled(&everywhere, target, &[("origin", "$MSB_KEY"), ("x", "mine")]).unwrap();
            assert_eq!(head.uri.query(), Some(format!("k={VALUE}").as_str()));
            assert_eq!((all(&head, "origin"), all(&head, "x")), (vec![VALUE], vec!["mine"]));
        }
    }

    #[test]
    fn a_field_of_the_guests_own_stands_neither_beside_a_value_nor_in_its_place() {
        let (own, filled_in) = (("x-api-key", "mine"), ("x-api-key", "$MSB_KEY"));
        // Where nothing is put in, a host that has fields for credentials may be given others.
        assert_eq!(all(&filled(&table(|_| {}), "/", &[own]).unwrap(), "x-api-key"), ["mine"]);
        for fields in [[own, filled_in], [filled_in, own]] {
            assert_eq!(all(&filled(&table(|_| {}), "/", &fields).unwrap(), "x-api-key"), [VALUE]);
        }
        // A field that the definition names is the secret's.
        let named = table(|key| key.headers = vec!["x-api-key".into()]);
        let head = filled(&named, "/", &[own, ("authorization", "mine")]).unwrap();
        assert_eq!((all(&head, "x-api-key"), all(&head, "authorization")), (vec![], vec!["mine"]));
    }

    #[test]
    fn a_stand_in_of_another_host_does_not_leave() {
        let basic = format!("Basic {}", STANDARD.encode("me:$MSB_KEY_OF_OTHERS"));
        let kept = Refusal::Kept { secret: "KEY_OF_OTHERS".into() };
        for (target, field) in [
            ("/", ("authorization", "Bearer $MSB_KEY_OF_OTHERS")),
            ("/", ("authorization", basic.as_str())),
            ("/", ("x-any", "a $MSB_KEY_OF_OTHERS b")),
            ("/?k=%24MSB_KEY_OF_OTHERS", ("x", "y")),
            ("/$MSB_KEY_OF_OTHERS", ("x", "y")),
        ] {
            assert_eq!(filled(&table(|_| {}), target, &[field]).unwrap_err(), kept, "{target} {field:?}");
        }
    }
}

//! What stands behind the question mark.

use std::collections::BTreeMap;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::Refusal;

/// Parameters by name. None stands twice: with two values, two readers could each believe another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// No client needs more.
    const MAX_PARAMETERS: usize = 32;

    pub fn parse(text: &str) -> Result<Query, Refusal> {
        let mut found = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if found.len() == Self::MAX_PARAMETERS {
                return Err(Refusal::invalid("a request has at most 32 parameters"));
            }
            if found.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                let name: String = name.chars().take(40).flat_map(char::escape_debug).collect();
                return Err(Refusal::invalid(format!("the parameter `{name}` stands twice")));
            }
        }
        Ok(Query(found))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A plain number between two bounds, or nothing if it was not given.
    pub fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = plain_number(text).filter(|number| (least..=most).contains(number));
        let range = if most == u64::MAX {
            format!("a whole number from {least} on")
        } else {
            format!("a whole number from {least} to {most}")
        };
        number.map(Some).ok_or_else(|| Refusal::invalid(format!("`{name}` has to be {range}")))
    }

    /// A plain number, or nothing if it was not given. One too large to count with is the largest.
    pub fn any_number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match is_digits(text) {
            true => Ok(Some(text.parse().unwrap_or(u64::MAX))),
            false => Err(Refusal::invalid(format!("`{name}` has to be a whole number from 0 on"))),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Refusal> {
        Query::parse(parts.uri.query().unwrap_or_default())
    }
}

/// Digits alone: no sign, no space, no exponent.
pub(crate) fn plain_number(text: &str) -> Option<u64> {
    is_digits(text).then(|| text.parse().ok()).flatten()
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_once() {
        let query = Query::parse("a=1&b=x%20y+z&c").unwrap();
        assert_eq!(
            (query.get("a"), query.get("b"), query.get("c")),
            (Some("1"), Some("x y z"), Some(""))
        );
        assert!(Query::parse("a=1&a=1").is_err());
        let many: Vec<String> = (0..33).map(|n| format!("p{n}=")).collect();
        assert!(Query::parse(&many.join("&")).is_err());
    }

    #[test]
    fn numbers_are_plain_and_bounded() {
        let number = |text: &str| {
            Query::parse(&format!("n={text}")).unwrap().number("n", 1, 60).map_err(|r| r.status)
        };
        assert_eq!(number("60"), Ok(Some(60)));
        for bad in ["0", "61", "-1", "%2B5", "5.0", "1e1", "", "abc", "99999999999999999999"] {
            assert!(number(bad).is_err(), "{bad}");
        }
        assert_eq!(Query::default().number("n", 0, 1).unwrap(), None);
        let any = |text: &str| Query::parse(&format!("n={text}")).unwrap().any_number("n").ok();
        assert_eq!(any("99999999999999999999"), Some(Some(u64::MAX)));
        assert_eq!((any("7"), any("-1"), any("")), (Some(Some(7)), None, None));
    }
}

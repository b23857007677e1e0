//! Secrets that workflows of the suite ask for, so that it can look whether they come out again.

use countersign_model::Failure;
use countersign_workflow::Secrets;

/// The first may be given, so that whoever runs the suite knows what to look for. Everything else is
/// made up, and gone with the process.
pub fn secrets(given: Option<&str>) -> Result<Secrets, Failure> {
    let canary = given.map_or_else(made_up, |value| Ok(value.to_owned()))?;
    Ok(Secrets::default()
        .with("openwop-conformance-canary-secret", &canary)
        .with("conformance-test-secret", &made_up()?))
}

fn made_up() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::resource("HOST_EXHAUSTED", format!("there is no randomness: {error}"))
    })?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("canary-{text}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where it fails")]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_is_made_up_each_time() {
        let (one, two) = (secrets(None).unwrap(), secrets(None).unwrap());
        assert_ne!(one, two);
        assert!(one.has("conformance-test-secret"));
        assert!(!secrets(Some("short")).unwrap().has("openwop-conformance-canary-secret"));
    }
}

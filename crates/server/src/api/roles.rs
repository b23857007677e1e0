//! Which roles principals hold. Nobody holds any, except the named characters of the conformance
//! suite, who exist only where its switch is on and whose names no key can have.

/// The roles there are, each with the scopes that it stands for.
pub(super) const ROLES: [(&str, &[&str]); 2] =
    [("approver", &["approvals:respond"]), ("owner", &["approvals:respond"])];

/// Who holds which.
const SEEDED: [(&str, &[&str]); 3] = [
    ("conformance-approver-principal", &["approver"]),
    ("conformance-second-approver-principal", &["approver"]),
    ("conformance-owner-principal", &["owner"]),
];

/// Somebody beside whom another approver is needed.
pub(super) const SECOND: &str = "conformance-second-approver-principal";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Roles {
    seeded: bool,
}

impl Roles {
    pub(crate) fn new(conformance: bool) -> Roles {
        Roles { seeded: conformance }
    }

    /// Whoever is not known holds none.
    pub(crate) fn of(self, principal: &str) -> Vec<String> {
        let found = SEEDED.iter().find(|(name, _)| self.seeded && *name == principal);
        found.map_or_else(Vec::new, |(_, roles)| roles.iter().map(ToString::to_string).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_of_the_suite_hold_roles_and_no_key_has_their_name() {
        assert_eq!(Roles::new(true).of("conformance-owner-principal"), ["owner"]);
        assert!(Roles::new(true).of("human:ann").is_empty());
        for (name, roles) in SEEDED {
            assert!(Roles::new(false).of(name).is_empty());
            assert!(name.parse::<countersign_model::Principal>().is_err(), "{name}");
            assert!(roles.iter().all(|role| ROLES.iter().any(|(known, _)| known == role)));
        }
    }
}

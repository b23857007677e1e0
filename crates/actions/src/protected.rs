//! Files that no action changes: what is in them runs elsewhere, with other rights.

use countersign_host::config::ActionsConfig;
use countersign_model::{Failure, Scope};

/// Refuses the first path that is protected. Case makes no difference: to some file systems and
/// services it makes none either.
pub(crate) fn check_protected<'p>(
    config: &ActionsConfig,
    paths: impl IntoIterator<Item = &'p str>,
) -> Result<(), Failure> {
    let patterns = config.protected.iter().flat_map(|pattern| {
        let pattern = pattern.to_ascii_lowercase();
        [format!("/{pattern}"), format!("/**/{pattern}")]
    });
    let scope = Scope::parse(patterns).map_err(|failure| Failure {
        message: format!("`actions.protected` in countersign.toml: {}", failure.message),
        code: "CONFIG_INVALID".into(),
        ..failure
    })?;
    let is_protected = |path: &&str| scope.contains(&format!("/{}", path.to_ascii_lowercase()));
    match paths.into_iter().find(is_protected) {
        None => Ok(()),
        Some(path) => {
            let message =
                format!("`{}` is a control file, and no action changes it", path.escape_debug());
            Err(Failure::authorization("CONTROL_FILE", message)
                .hint("change it by hand, or take it off `actions.protected` in countersign.toml"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_files_are_found_at_any_depth_and_in_any_case() {
        let config = ActionsConfig::default();
        for path in [
            ".github/workflows/ci.yml",
            ".GitHub/Workflows/x/y.yml",
            "sub/.github/workflows/ci.yml",
            ".gitlab-ci.yml",
            "Jenkinsfile",
            "jenkinsfile",
            ".husky/pre-commit",
            ".countersign/policy/x.cedar",
            "a/.gitmodules",
        ] {
            assert!(check_protected(&config, [path]).is_err(), "{path}");
        }
        for path in [".github/ISSUE_TEMPLATE.md", "src/jenkinsfile.rs", "docs/workflows/ci.yml"] {
            assert!(check_protected(&config, [path]).is_ok(), "{path}");
        }
    }
}

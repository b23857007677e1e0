//! A credential for one push: handed over when it runs, and kept nowhere.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use countersign_model::Failure;
use countersign_repository::Credential;

/// The variable that holds a password unless another is named.
const PASSWORD: &str = "COUNTERSIGN_GIT_PASSWORD";

/// For actions that act elsewhere in somebody's name.
#[derive(Debug, Args)]
pub(crate) struct CredentialArgs {
    /// For a push: the user at the remote; the password or token is in an environment variable
    #[arg(long, value_name = "USER", conflicts_with = "ssh_agent")]
    git_user: Option<String>,

    /// The variable that holds it
    #[arg(long, value_name = "VAR", default_value = PASSWORD, requires = "git_user")]
    git_password_env: String,

    /// For a push over ssh: let the agent behind SSH_AUTH_SOCK sign
    #[arg(long)]
    ssh_agent: bool,
}

impl CredentialArgs {
    pub(super) fn read(&self) -> Result<Option<Arc<Credential>>, Failure> {
        let credential = match &self.git_user {
            Some(user) => Credential::Password {
                username: user.clone(),
                password: variable(&self.git_password_env)?.into(),
            },
            None if self.ssh_agent => {
                Credential::SshAgent(PathBuf::from(variable("SSH_AUTH_SOCK")?))
            }
            None => return Ok(None),
        };
        Ok(Some(Arc::new(credential)))
    }
}

fn variable(name: &str) -> Result<String, Failure> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
        let message = format!("the environment variable {name} is not set");
        Failure::validation("CREDENTIAL_MISSING", message)
            .hint("set it for this command alone, and nowhere else")
    })
}

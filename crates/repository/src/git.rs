//! One git directory, and the environment in which git may look at it.
//!
//! Nothing that a repository, an account or a machine has configured may start a program: the
//! environment is made from nothing, and what a repository's own configuration could name is
//! overruled by settings that rank above every file.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::Program;
use crate::run::Call;

/// Rank above every configuration file.
const SETTINGS: &[(&str, &str)] = &[
    // Nothing starts a program.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("push.recurseSubmodules", "no"),
    // Files are what their bytes and modes are.
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.symlinks", "true"),
    ("core.fileMode", "true"),
    ("core.ignoreCase", "false"),
    ("core.precomposeUnicode", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.sparseCheckout", "false"),
    // What the index remembers of a file is enough to know that it changed.
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    // History is read from commits, not from what was cached of them.
    ("core.commitGraph", "false"),
    ("http.followRedirects", "false"),
    // Ownership is for the operator to judge, who named the repository.
    ("safe.directory", "*"),
    ("core.fsync", "all"),
];

const ENVIRONMENT: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("TZ", "UTC"),
    ("HOME", "/nonexistent"),
    ("XDG_CONFIG_HOME", "/nonexistent"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/nonexistent"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    // Ranks above `protocol.*.allow`, which a repository could set.
    ("GIT_ALLOW_PROTOCOL", "none"),
];

/// Git, pointed at one git directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    program: Program,
    directory: PathBuf,
    variables: Vec<(OsString, OsString)>,
    settings: Vec<(String, String)>,
}

impl Git {
    /// Git in a directory that is, or is to be found to be, a repository.
    pub(crate) fn looking_from(program: &Program, directory: &Path) -> Self {
        let (program, directory) = (program.clone(), directory.to_owned());
        Git { program, directory, variables: Vec::new(), settings: Vec::new() }
    }

    /// Git with exactly this git directory; nothing is searched for.
    pub(crate) fn of(program: &Program, git_dir: &Path) -> Self {
        Self::looking_from(program, git_dir).with("GIT_DIR", git_dir)
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The same with one more variable in the environment.
    pub(crate) fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut git = self.clone();
        git.variables.push((name.into(), value.as_ref().to_owned()));
        git
    }

    /// The same with one more setting.
    pub(crate) fn set(&self, key: &str, value: &str) -> Self {
        let mut git = self.clone();
        git.settings.push((key.to_owned(), value.to_owned()));
        git
    }

    pub(crate) fn work_tree(&self, tree: &Path) -> Self {
        self.with("GIT_WORK_TREE", tree)
    }

    pub(crate) fn index(&self, file: &Path) -> Self {
        self.with("GIT_INDEX_FILE", file)
    }

    /// A command with its arguments; nothing runs yet.
    pub(crate) fn call<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Call {
        let arguments: Vec<OsString> =
            arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        Call::new(self.command(&arguments), &arguments)
    }

    fn command(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new(self.program.path());
        command.env_clear().env("PATH", self.program.search_path());
        command.envs(ENVIRONMENT.iter().copied());
        self.configure(&mut command);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.arg("--no-pager").args(arguments).current_dir(&self.directory);
        command
    }

    /// Settings go by the environment: they rank as high as arguments, and no list of processes
    /// shows them.
    fn configure(&self, command: &mut Command) {
        let own = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut count = 0usize;
        for (key, value) in SETTINGS.iter().copied().chain(own) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
    }
}

//! `countersign.toml`. Every key has a default; a key that is not known is an error, because a
//! misspelt limit is a limit that does not hold.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use countersign_model::json::JsonLimits;
use countersign_model::{Failure, ToolId, Verdict};
use countersign_policy::Rule;
use serde::Deserialize;

/// What `countersign init` writes: the defaults, explained.
pub const DEFAULT: &str = include_str!("../countersign.default.toml");

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub actions: ActionsConfig,
    pub artifacts: ArtifactsConfig,
    pub approval: ApprovalConfig,
    pub input: InputConfig,
    pub network: NetworkConfig,
    pub policy: PolicyConfig,
    pub requests: RequestsConfig,
    pub retry: RetryConfig,
    pub sandbox: SandboxConfig,
    pub serve: ServeConfig,
    /// Named sets of tools, by id or as `file.*`.
    pub toolsets: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// A short form of policies, for those who do not want to write Cedar yet.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalConfig {
    /// How long people may take, unless a rule says otherwise.
    pub expire_after_hours: u32,
    /// How many calls of one principal may wait at a time.
    pub max_waiting_per_principal: u32,
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        ApprovalConfig { expire_after_hours: 24, max_waiting_per_principal: 1_000 }
    }
}

impl ApprovalConfig {
    /// How long people may take to answer, in milliseconds.
    pub(crate) fn patience_ms(self, verdict: &Verdict) -> i64 {
        let default = u64::from(self.expire_after_hours) * 3_600_000;
        let asked = verdict.expires_after_ms.unwrap_or(default).min(MOST_PATIENCE_MS);
        i64::try_from(asked).unwrap_or(i64::MAX)
    }
}

/// Nobody remembers a question for longer than this.
const MOST_PATIENCE_MS: u64 = 366 * 24 * 3_600_000;

/// How `countersign serve` meets its clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServeConfig {
    /// Names that clients may use for this host, beside those of the loopback.
    pub names: Vec<String>,
    /// Origins of pages that may ask, such as `https://console.example.org`.
    pub origins: Vec<String>,
    pub max_body_kb: u32,
    /// Requests that are at work at a time, streams included.
    pub max_inflight: u32,
    /// 0 is without limit.
    pub requests_per_second_of_key: u32,
    pub requests_per_second_of_tenant: u32,
    /// Of those who show no good key.
    pub requests_per_second_of_address: u32,
    pub tls: Option<TlsConfig>,
    /// For tests: webhooks may lead to this machine and its network, and over plain `http`.
    pub webhook_allow_private: bool,
    pub webhook_signature: WebhookSignature,
}

/// How the signature of a webhook is written: older receivers want the digits alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WebhookSignature {
    #[default]
    Bare,
    /// With `sha256=` before them.
    Prefixed,
}

impl Default for ServeConfig {
    fn default() -> Self {
        ServeConfig {
            names: Vec::new(),
            origins: Vec::new(),
            max_body_kb: 1024,
            max_inflight: 2048,
            requests_per_second_of_key: 0,
            requests_per_second_of_tenant: 0,
            requests_per_second_of_address: 50,
            tls: None,
            webhook_allow_private: false,
            webhook_signature: WebhookSignature::Bare,
        }
    }
}

/// Certificate chain and private key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    pub certificates: PathBuf,
    pub key: PathBuf,
}

/// What request documents may ask for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestsConfig {
    /// Processor cores.
    pub max_cpu: u32,
    /// Megabytes of one input file.
    pub max_input_mb: u32,
    pub max_memory_mb: u32,
    pub max_time_sec: u32,
}

impl Default for RequestsConfig {
    fn default() -> Self {
        RequestsConfig { max_cpu: 4, max_input_mb: 1024, max_memory_mb: 1024, max_time_sec: 300 }
    }
}

/// What actions may use, and where they may not write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActionsConfig {
    /// How long actions of each class may take.
    pub fast_sec: u32,
    pub medium_sec: u32,
    pub long_sec: u32,
    /// What the programs of one action may use together.
    pub max_memory_mb: u32,
    pub max_processes: u32,
    /// Of each log; what comes later is cut.
    pub max_log_mb: u32,
    /// For programs that actions run, such as where a toolchain lies.
    pub environment: BTreeMap<String, String>,
    /// Commands in place of those that are found in a workspace; each an argument list.
    pub linters: Vec<CommandConfig>,
    pub tests: Vec<CommandConfig>,
    /// Files that no action changes, beside what version control keeps.
    pub protected: Vec<String>,
    pub push: PushConfig,
}

/// A command that an action runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    pub id: String,
    pub argv: Vec<String>,
    /// What it prints or leaves: `junit`, `sarif`, `cargo`, `libtest`, `pytest`, `go`, `tap`, …
    pub format: String,
    /// A file beneath `/out` that holds the report; without it, standard output does.
    #[serde(default)]
    pub report: Option<String>,
    #[serde(default)]
    pub directory: String,
}

/// Where branches may be pushed. Nothing is allowed unless it is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PushConfig {
    /// Addresses of repositories, exactly, or ending in `*`.
    pub remotes: Vec<String>,
    /// Branches, exactly, or ending in `*`.
    pub branches: Vec<String>,
    /// The keys of hosts that ssh trusts; without it those that the account knows.
    pub known_hosts: Option<PathBuf>,
}

/// Control files of common services and tools: what is in them runs elsewhere, with other rights.
const PROTECTED: [&str; 18] = [
    ".appveyor.yml",
    ".azure-pipelines/**",
    ".buildkite/**",
    ".circleci/**",
    ".countersign/**",
    ".drone.yml",
    ".git-blame-ignore-revs",
    ".gitea/workflows/**",
    ".github/actions/**",
    ".github/workflows/**",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".husky/**",
    ".pre-commit-config.yaml",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "lefthook.yml",
];

impl Default for ActionsConfig {
    fn default() -> Self {
        ActionsConfig {
            fast_sec: 30,
            medium_sec: 300,
            long_sec: 1_800,
            max_memory_mb: 4_096,
            max_processes: 512,
            max_log_mb: 64,
            environment: BTreeMap::new(),
            linters: Vec::new(),
            tests: Vec::new(),
            protected: PROTECTED.map(str::to_owned).to_vec(),
            push: PushConfig::default(),
        }
    }
}

impl ActionsConfig {
    /// Commands are argument lists that do something; names are not used twice.
    fn check(&self) -> Result<(), String> {
        for (list, commands) in [("linters", &self.linters), ("tests", &self.tests)] {
            for (at, command) in commands.iter().enumerate() {
                let id = &command.id;
                let empty = command.argv.first().is_none_or(String::is_empty);
                if id.is_empty() || empty {
                    return Err(format!("a command of `actions.{list}` has no id or no program"));
                }
                if commands.iter().take(at).any(|other| other.id == *id) {
                    return Err(format!("`actions.{list}` has two commands called `{id}`"));
                }
                if command.argv.iter().any(|argument| argument.contains('\0')) {
                    return Err(format!("the command `{id}` of `actions.{list}` holds a NUL"));
                }
            }
        }
        let odd = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
        match self.environment.keys().find(odd) {
            None => Ok(()),
            Some(name) => Err(format!("`actions.environment` names `{}`", name.escape_debug())),
        }
    }
}

/// How long artifacts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactsConfig {
    pub keep_days: u32,
}

impl Default for ArtifactsConfig {
    fn default() -> Self {
        ArtifactsConfig { keep_days: 90 }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Networks inside of which addresses may be reached although they are private.
    pub private: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxConfig {
    /// Paths of this machine that programs may read, beside those that all programs need.
    pub show: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputConfig {
    pub max_bytes: usize,
    pub max_depth: usize,
}

impl Default for InputConfig {
    fn default() -> Self {
        let JsonLimits { max_bytes, max_depth } = JsonLimits::default();
        InputConfig { max_bytes, max_depth }
    }
}

impl InputConfig {
    pub fn limits(self) -> JsonLimits {
        JsonLimits { max_bytes: self.max_bytes, max_depth: self.max_depth }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryConfig {
    /// Further attempts after the first.
    pub max_retries: u32,
    pub base_delay_ms: u64,
    pub max_delay_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        RetryConfig { max_retries: 3, base_delay_ms: 100, max_delay_ms: 5_000 }
    }
}

/// Beyond these a configuration is a mistake, not a choice.
const MAX_WAITING: u64 = 1_000_000;
const MAX_INPUT_BYTES: usize = 16 << 20;
const MAX_INPUT_DEPTH: usize = 128;
const MAX_RETRIES: u32 = 10;

/// What a sandbox has of its own: whatever is shown beneath these could not be seen.
const TAKEN: [&str; 7] = ["/dev", "/in", "/out", "/proc", "/tmp", "/tool", "/workspace"];

fn can_be_shown(path: &Path) -> bool {
    let plain = path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let taken = TAKEN.iter().any(|taken| path.starts_with(taken));
    path.is_absolute() && plain && !taken && path != Path::new("/")
}

fn is_pattern(pattern: &str) -> bool {
    let id = pattern.strip_suffix(".*").map(|family| format!("{family}.x"));
    id.as_deref().unwrap_or(pattern).parse::<ToolId>().is_ok()
}

fn is_match(pattern: &str, tool: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(family) => tool.starts_with(family),
        None => tool == pattern,
    }
}

impl Config {
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let invalid = |why: String| {
            Failure::validation("CONFIG_INVALID", format!("{} {why}", path.display()))
                .hint("correct the file, or remove it to use the defaults")
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(invalid(format!("cannot be read: {error}"))),
        };
        let config: Config = toml::from_str(&text)
            .map_err(|error| invalid(format!("is not valid: {}", error.to_string().trim_end())))?;
        config.check().map_err(|why| invalid(format!("is not valid: {why}")))?;
        Ok(config)
    }

    /// Whether a toolset holds a tool. One that does not exist holds nothing, and is a mistake.
    pub(crate) fn toolset_has(&self, toolset: &str, tool: &ToolId) -> Result<bool, Failure> {
        let patterns = self.toolsets.get(toolset).ok_or_else(|| {
            let known: Vec<_> = self.toolsets.keys().map(String::as_str).collect();
            let hint = match known.is_empty() {
                true => {
                    "name toolsets in countersign.toml, such as `coding = [\"file.*\"]`".to_owned()
                }
                false => format!("toolsets are {}", known.join(", ")),
            };
            Failure::validation("TOOLSET_UNKNOWN", format!("there is no toolset `{toolset}`"))
                .hint(hint)
        })?;
        Ok(patterns.iter().any(|pattern| is_match(pattern, tool.as_str())))
    }

    fn check(&self) -> Result<(), String> {
        for (name, patterns) in &self.toolsets {
            if let Some(bad) = patterns.iter().find(|pattern| !is_pattern(pattern)) {
                return Err(format!(
                    "the toolset `{name}` names `{bad}`; name tools such as `file.read`, or `file.*`"
                ));
            }
        }

        self.actions.check()?;
        let bounds = [
            ("actions.fast_sec", self.actions.fast_sec.into(), 1, 3_600),
            ("actions.medium_sec", self.actions.medium_sec.into(), 1, 14_400),
            ("actions.long_sec", self.actions.long_sec.into(), 1, 86_400),
            ("actions.max_memory_mb", self.actions.max_memory_mb.into(), 64, 1 << 20),
            ("actions.max_processes", self.actions.max_processes.into(), 8, 32_768),
            ("actions.max_log_mb", self.actions.max_log_mb.into(), 1, 1_024),
            ("artifacts.keep_days", self.artifacts.keep_days.into(), 1, 36_600),
            ("approval.expire_after_hours", self.approval.expire_after_hours.into(), 1, 8_784),
            (
                "approval.max_waiting_per_principal",
                self.approval.max_waiting_per_principal.into(),
                1,
                MAX_WAITING,
            ),
            ("input.max_bytes", self.input.max_bytes as u64, 1, MAX_INPUT_BYTES as u64),
            ("input.max_depth", self.input.max_depth as u64, 1, MAX_INPUT_DEPTH as u64),
            ("requests.max_cpu", self.requests.max_cpu.into(), 1, 1_024),
            ("requests.max_input_mb", self.requests.max_input_mb.into(), 1, 1 << 20),
            ("requests.max_memory_mb", self.requests.max_memory_mb.into(), 1, 65_536),
            ("requests.max_time_sec", self.requests.max_time_sec.into(), 1, 86_400),
            ("retry.max_retries", self.retry.max_retries.into(), 0, MAX_RETRIES.into()),
            ("retry.base_delay_ms", self.retry.base_delay_ms, 0, 60_000),
            ("retry.max_delay_ms", self.retry.max_delay_ms, self.retry.base_delay_ms, 600_000),
        ];
        if let Some(path) = self.sandbox.show.iter().find(|path| !can_be_shown(path)) {
            return Err(format!(
                "`sandbox.show` names `{}`; name absolute paths without `..` that are not beneath {}",
                path.display(),
                TAKEN.join(", ")
            ));
        }
        match bounds.iter().find(|(_, value, least, most)| value < least || value > most) {
            Some((key, value, least, most)) => {
                Err(format!("`{key}` is {value}; it must be between {least} and {most}"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("countersign.toml");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn the_written_defaults_are_the_defaults() {
        let written = format!("{:?}", load(DEFAULT).unwrap());
        assert_eq!(written, format!("{:?}", Config::default()));
    }

    #[test]
    fn toolsets_hold_tools_by_name_and_by_family() {
        let config = load("[toolsets]\ncoding = [\"file.*\", \"text.digest\"]\n").unwrap();
        let has = |tool: &str| config.toolset_has("coding", &tool.parse().unwrap()).unwrap();
        assert!(has("file.read") && has("file.read.all") && has("text.digest"));
        assert!(!has("files.read") && !has("text.digest.more") && !has("state.get"));
        let unknown = config.toolset_has("codnig", &"file.read".parse().unwrap()).unwrap_err();
        assert_eq!(unknown.code, "TOOLSET_UNKNOWN");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("[input]\nmax_byte = 1\n", "max_byte"),
            ("[inputs]\n", "inputs"),
            ("[toolsets]\na = [\"file*\"]\n", "`file*`"),
            ("[approval]\nexpire_after_hours = 0\n", "between 1 and"),
            ("[approval]\nmax_waiting_per_principal = 0\n", "between 1 and"),
            ("[[policy.rules]]\nname = \"x\"\ntoll = \"*\"\n", "toll"),
            ("[retry]\nmax_retries = 99\n", "between 0 and 10"),
            ("[input]\nmax_bytes = \"1M\"\n", "max_bytes"),
            ("[actions]\nfast_sec = 0\n", "actions.fast_sec"),
            ("[actions]\nlong = 1\n", "long"),
            ("[[actions.tests]]\nid = \"a\"\nargv = []\nformat = \"tap\"\n", "no program"),
            ("[artifacts]\nkeep_days = 0\n", "artifacts.keep_days"),
            ("[sandbox]\nshow = [\"opt\"]\n", "`opt`"),
            ("[sandbox]\nshow = [\"/opt\", \"/tmp/x\"]\n", "`/tmp/x`"),
            ("[sandbox]\nshow = [\"/opt/../tmp\"]\n", "sandbox.show"),
            ("[sandbox]\nshow = [\"/\"]\n", "sandbox.show"),
        ] {
            let failure = load(text).unwrap_err();
            assert_eq!(failure.code, "CONFIG_INVALID");
            assert!(failure.message.contains(named), "{}", failure.message);
        }
    }
}

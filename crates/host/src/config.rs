//! `countersign.toml`. Every key has a default; a key that is not known is an error, because a
//! misspelt limit is a limit that does not hold.

use std::path::{Component, Path, PathBuf};

use countersign_model::Failure;
use countersign_model::json::JsonLimits;
use serde::Deserialize;

/// What `countersign init` writes: the defaults, explained.
pub const DEFAULT: &str = include_str!("../countersign.default.toml");

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub input: InputConfig,
    pub network: NetworkConfig,
    pub retry: RetryConfig,
    pub sandbox: SandboxConfig,
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

    fn check(&self) -> Result<(), String> {
        let bounds = [
            ("input.max_bytes", self.input.max_bytes as u64, 1, MAX_INPUT_BYTES as u64),
            ("input.max_depth", self.input.max_depth as u64, 1, MAX_INPUT_DEPTH as u64),
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
    fn mistakes_are_named() {
        for (text, named) in [
            ("[input]\nmax_byte = 1\n", "max_byte"),
            ("[inputs]\n", "inputs"),
            ("[retry]\nmax_retries = 99\n", "between 0 and 10"),
            ("[input]\nmax_bytes = \"1M\"\n", "max_bytes"),
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

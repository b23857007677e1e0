//! File modes as git writes them.

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Kind {
    File { executable: bool },
    Link,
    Directory,
}

impl Kind {
    pub fn is_file(self) -> bool {
        matches!(self, Kind::File { .. })
    }

    /// As git would write it.
    pub fn mode(self) -> Option<Mode> {
        match self {
            Kind::File { executable: false } => Some(Mode::Plain),
            Kind::File { executable: true } => Some(Mode::Executable),
            Kind::Link => Some(Mode::Link),
            Kind::Directory => None,
        }
    }

    /// In the words of messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::File { executable: false } => "a plain file",
            Kind::File { executable: true } => "an executable file",
            Kind::Link => "a symbolic link",
            Kind::Directory => "a directory",
        }
    }
}

/// A mode in a header. Permission bits other than "executable" mean nothing to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Executable,
    Link,
    Submodule,
}

impl Mode {
    /// Reads octal digits; nothing when git would not write such a mode.
    pub(crate) fn read(digits: &[u8]) -> Option<Mode> {
        let digits = std::str::from_utf8(digits).ok().filter(|d| d.len() <= 6)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        match u32::from_str_radix(digits, 8).ok()? {
            0o120000 => Some(Mode::Link),
            0o160000 => Some(Mode::Submodule),
            bits if bits & 0o177000 == 0o100000 && bits & 0o100 != 0 => Some(Mode::Executable),
            bits if bits & 0o177000 == 0o100000 => Some(Mode::Plain),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Plain => "100644",
            Mode::Executable => "100755",
            Mode::Link => "120000",
            Mode::Submodule => "160000",
        }
    }

    /// What a tree holds for it; a submodule has no content of its own.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Mode::Plain => Some(Kind::File { executable: false }),
            Mode::Executable => Some(Kind::File { executable: true }),
            Mode::Link => Some(Kind::Link),
            Mode::Submodule => None,
        }
    }

    /// Files with and without the executable bit are of one type.
    pub(crate) fn same_type(self, other: Mode) -> bool {
        let plain = |mode| if mode == Mode::Executable { Mode::Plain } else { mode };
        plain(self) == plain(other)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

//! Files and lines in what tools print, told relative to the workspace.

use crate::text::MAX_NAME;

/// Where a tool ran, so that its paths can be told relative to the workspace.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// Where the workspace was for the tool, such as `/workspace`.
    pub workspace: &'a str,
    /// Where in the workspace it ran, relative; empty for the root.
    pub directory: &'a str,
    /// The module that `go.mod` there names: Go tells packages, not directories.
    pub go_module: Option<&'a str>,
}

impl Default for Places<'_> {
    fn default() -> Self {
        Places { workspace: "/workspace", directory: "", go_module: None }
    }
}

/// A file and a line that a tool spoke of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl Places<'_> {
    /// A path as seen from the root of the workspace. What lies outside stays as it was told.
    pub fn relative(&self, told: &str) -> String {
        let path = told.strip_prefix("file://").unwrap_or(told).trim();
        if !path.starts_with('/') {
            let joined = tidy(&format!("{}/{path}", self.directory));
            return joined.unwrap_or_else(|| path.to_owned());
        }
        let inside = path.strip_prefix(self.workspace.trim_end_matches('/'));
        let inside = inside.and_then(|rest| rest.strip_prefix('/'));
        inside.and_then(tidy).unwrap_or_else(|| path.to_owned())
    }

    /// The directory of a Go package: what its path adds to the module's.
    pub(crate) fn of_go_package(&self, package: &str, file: &str) -> String {
        if file.starts_with('/') {
            return self.relative(file);
        }
        let inner = self.go_module.and_then(|module| package.strip_prefix(module));
        match inner.filter(|inner| inner.is_empty() || inner.starts_with('/')) {
            Some(inner) => self.relative(&format!(".{inner}/{file}")),
            None => file.to_owned(),
        }
    }

    /// The place that a text of a failure speaks of. Python tells the innermost frame last,
    /// everybody else first; frames of libraries and of the runner do not count.
    pub(crate) fn spot_in(&self, text: &str) -> Option<Spot> {
        let mut spots = text.lines().flat_map(|line| self.spots(line));
        let first = spots.next()?;
        if !is_python(&first.file) {
            return Some(first);
        }
        Some(spots.rfind(|spot| is_python(&spot.file)).unwrap_or(first))
    }

    /// Every place of the project in one line, from left to right.
    pub(crate) fn spots(&self, line: &str) -> Vec<Spot> {
        if let Some((file, line)) = python_frame(line) {
            return self.ours(file, line).into_iter().collect();
        }
        let tokens = line.split(|c: char| c.is_whitespace() || "()[]{}'\"`<>,=".contains(c));
        let told = tokens.filter_map(file_and_line);
        told.filter_map(|(file, line)| self.ours(file, line)).collect()
    }

    fn ours(&self, file: &str, line: u32) -> Option<Spot> {
        let file = self.relative(file);
        let foreign = file.starts_with('/')
            || file.len() > MAX_NAME
            || ["node_modules", "site-packages", "dist-packages"]
                .iter()
                .any(|library| file.split('/').any(|part| part == *library));
        (!foreign).then_some(Spot { file, line })
    }
}

fn is_python(file: &str) -> bool {
    file.ends_with(".py")
}

/// Resolves `.` and `..`; nothing when the path leaves the root or names nothing.
fn tidy(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// `File "test_a.py", line 5, in test_x`
fn python_frame(line: &str) -> Option<(&str, u32)> {
    let rest = line.trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    Some((file, leading_number(rest)?))
}

pub(crate) fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}

/// `path:line` or `path:line:column`, maybe with a colon behind it.
pub(crate) fn file_and_line(token: &str) -> Option<(&str, u32)> {
    let token = token.trim_end_matches([':', '.', ';']);
    let (before, last) = token.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    if let Some((file, line)) = before.rsplit_once(':')
        && let Ok(line) = line.parse()
    {
        return looks_like_file(file).then_some((file, line));
    }
    looks_like_file(before).then_some((before, last))
}

fn looks_like_file(path: &str) -> bool {
    let local = path.strip_prefix("file://").unwrap_or(path);
    let name = local.rsplit('/').next().unwrap_or(local);
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_word = (1..=8).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && extension.bytes().any(|byte| byte.is_ascii_alphabetic());
    // `example.com:443` is an address, `node:fs` a module of the runner.
    let is_host = local == name && ["com", "org", "net", "io", "dev"].contains(&extension);
    !stem.is_empty() && is_word && !is_host && !local.contains("://") && !local.starts_with("node:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places<'static> =
        Places { workspace: "/workspace", directory: "services/a", go_module: Some("x.org/m") };

    #[test]
    fn paths_are_told_from_the_root_of_the_workspace() {
        let check = |told: &str, expected: &str| assert_eq!(PLACES.relative(told), expected);
        check("/workspace/src/x.rs", "src/x.rs");
        check("file:///workspace/src/x.rs", "src/x.rs");
        check("./src/../lib/x.rs", "services/a/lib/x.rs");
        check("../b/x.rs", "services/b/x.rs");
        check("/workspaces/x.rs", "/workspaces/x.rs");
        check("/workspace/../etc/passwd", "/workspace/../etc/passwd");
        check("../../../x.rs", "../../../x.rs");
        check("/usr/lib/x.rs", "/usr/lib/x.rs");
    }

    #[test]
    fn places_are_found_in_sentences() {
        let check = |text: &str, expected: Option<(&str, u32)>| {
            let found = PLACES.spot_in(text).map(|spot| (spot.file, spot.line));
            assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)), "{text}");
        };
        check("panicked at src/lib.rs:6:42:", Some(("services/a/src/lib.rs", 6)));
        check("    at f (/workspace/a.test.js:3:28)", Some(("a.test.js", 3)));
        check("at node:internal/x.js:3:2\n at (/workspace/node_modules/x.js:1:1)", None);
        check("see http://example.com:80 or example.com:443 at 12:30:45, 10.0.0.1:80", None);
        check(
            "File \"/workspace/t.py\", line 7, in f\nFile \"/usr/x.py\", line 9",
            Some(("t.py", 7)),
        );
        check("a.py:1: \nb.py:2: AssertionError", Some(("services/a/b.py", 2)));
        check("a.js:1:2\nb.js:2:2", Some(("services/a/a.js", 1)));
        check("x.rs:99999999999:1 :1 :: x.rs: .rs:3", None);
    }

    #[test]
    fn go_packages_are_directories_of_their_module() {
        assert_eq!(PLACES.of_go_package("x.org/m/sub", "a_test.go"), "services/a/sub/a_test.go");
        assert_eq!(PLACES.of_go_package("x.org/m", "a_test.go"), "services/a/a_test.go");
        assert_eq!(PLACES.of_go_package("x.org/more", "a_test.go"), "a_test.go");
    }
}

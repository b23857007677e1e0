//! Names of programs and of files that mean something to the rules.

/// What a program is, by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Python,
    Node,
    Go,
    Ruby,
    Shell,
    /// Runs another program.
    Wrapper,
    Installer,
    /// Runs TypeScript, but is not what the sandbox has.
    Runner,
    Unknown,
}

const SHELLS: &[&str] = &[
    "sh",
    "bash",
    "rbash",
    "zsh",
    "dash",
    "ash",
    "ksh",
    "ksh93",
    "mksh",
    "pdksh",
    "fish",
    "csh",
    "tcsh",
    "pwsh",
    "powershell",
    "cmd",
    "busybox",
    "toybox",
    "nu",
    "xonsh",
    "elvish",
    "command.com",
    "eval",
    "exec",
    "source",
    ".",
];

const WRAPPERS: &[&str] = &[
    "env",
    "nice",
    "ionice",
    "nohup",
    "timeout",
    "time",
    "xargs",
    "parallel",
    "sudo",
    "doas",
    "su",
    "runuser",
    "setpriv",
    "setsid",
    "stdbuf",
    "unbuffer",
    "script",
    "strace",
    "ltrace",
    "gdb",
    "perf",
    "chroot",
    "unshare",
    "nsenter",
    "bwrap",
    "firejail",
    "taskset",
    "chrt",
    "watch",
    "find",
    "command",
    "builtin",
    "coproc",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "ssh",
    "tmux",
    "screen",
    "make",
    "flock",
    "prlimit",
    "systemd-run",
    "ld.so",
    "proxychains",
    "torsocks",
];

const INSTALLERS: &[&str] = &[
    "pip",
    "pip3",
    "pipx",
    "easy_install",
    "uv",
    "uvx",
    "poetry",
    "pipenv",
    "conda",
    "mamba",
    "micromamba",
    "npm",
    "npx",
    "pnpm",
    "pnpx",
    "yarn",
    "bun",
    "bunx",
    "corepack",
    "gem",
    "bundle",
    "bundler",
    "apt",
    "apt-get",
    "aptitude",
    "dpkg",
    "apk",
    "dnf",
    "yum",
    "rpm",
    "brew",
    "pacman",
    "zypper",
    "snap",
    "flatpak",
    "cargo",
    "rustup",
    "curl",
    "wget",
    "nix",
    "nix-env",
    "port",
    "choco",
    "winget",
    "scoop",
    "composer",
];

pub(super) fn program(name: &str) -> Known {
    let lower = name.to_ascii_lowercase();
    let plain = lower.strip_suffix(".exe").unwrap_or(&lower);
    match name {
        "python" | "python3" => Known::Python,
        "node" => Known::Node,
        "go" => Known::Go,
        "ruby" => Known::Ruby,
        _ if SHELLS.contains(&plain) => Known::Shell,
        _ if WRAPPERS.contains(&plain) => Known::Wrapper,
        _ if INSTALLERS.contains(&plain) => Known::Installer,
        _ if ["tsx", "ts-node", "deno", "swc-node", "esrun"].contains(&plain) => Known::Runner,
        _ => Known::Unknown,
    }
}

/// Names of languages that mean a shell.
pub(crate) fn is_shell_language(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let shell = ["shell", "shell_forbidden", "shellscript", "shell-script", "batch", "bat", "ps1"];
    shell.contains(&lower.as_str()) || SHELLS.contains(&lower.as_str())
}

/// Modules of Python that install.
pub(super) fn is_installing_module(module: &str) -> bool {
    let root = module.split('.').next().unwrap_or(module);
    ["pip", "ensurepip", "venv", "virtualenv"].contains(&root) || INSTALLERS.contains(&root)
}

/// The ending of a file's name, in lower case.
pub(super) fn extension(name: &str) -> Option<String> {
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then(|| extension.to_ascii_lowercase())
}

pub(super) fn is_shell_script(name: &str) -> bool {
    const SCRIPTS: &[&str] =
        &["sh", "bash", "zsh", "ksh", "csh", "fish", "ps1", "psm1", "bat", "cmd", "command"];
    extension(name).is_some_and(|extension| SCRIPTS.contains(&extension.as_str()))
}

/// Endings that make a bare word the name of a file. Others (`1.5`, `a.total`, `example.org`) are
/// left alone: whether they name files is the program's affair, and it sees only /in and /out.
pub(super) fn looks_like_file(name: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "7z", "arrow", "avi", "avro", "bash", "bin", "bmp", "bz2", "cfg", "cjs", "conf", "cpp",
        "csv", "cts", "dat", "db", "dll", "doc", "docx", "eps", "exe", "feather", "geojson", "gif",
        "go", "gz", "h5", "hdf5", "htm", "html", "ini", "ipynb", "jar", "jpeg", "jpg", "js",
        "json", "jsonl", "log", "md", "mjs", "mp3", "mp4", "mts", "ndjson", "npy", "npz", "ods",
        "onnx", "parquet", "pb", "pdf", "pem", "pickle", "pkl", "png", "pptx", "proto", "ps1",
        "py", "pyc", "rb", "rda", "rds", "rs", "sh", "sql", "sqlite", "sqlite3", "svg", "tar",
        "tex", "tgz", "tif", "tiff", "toml", "ts", "tsv", "txt", "wasm", "wav", "webp", "xls",
        "xlsx", "xml", "xz", "yaml", "yml", "zip", "zst",
    ];
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let last = name.rsplit('/').next().unwrap_or(name);
    name.chars().all(safe)
        && extension(last).is_some_and(|extension| ENDINGS.contains(&extension.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(program("python3"), Known::Python);
        assert_eq!(program("Python"), Known::Unknown);
        assert_eq!(program("BASH"), Known::Shell);
        assert_eq!(program("powershell.exe"), Known::Shell);
        assert_eq!(program("env"), Known::Wrapper);
        assert_eq!(program("npx"), Known::Installer);
        assert!(is_shell_language("Bash") && is_shell_language("shell_forbidden"));
        assert!(!is_shell_language("python"));
    }

    #[test]
    fn files_are_known_by_their_endings() {
        for name in ["a.csv", "x/b.JSON", "report.tar.gz", "setup.py"] {
            assert!(looks_like_file(name), "{name}");
        }
        for name in ["1.5", "a.total", "example.org", ".csv", "a.csv?", "Europe/Berlin", "{x}.csv"]
        {
            assert!(!looks_like_file(name), "{name}");
        }
    }
}

//! What is known of a file by its name alone.

/// Files that tell people and agents how to work here, the weightiest first.
const INSTRUCTIONS: [&str; 12] = [
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    "CONTRIBUTING.md",
    ".github/CONTRIBUTING.md",
    "README.md",
    "README.rst",
    "README",
];

/// Those that count for the directory they stand in, wherever that is.
const NESTED: usize = 3;

/// How early an instruction file comes: nearest to the root first, then by weight.
pub(crate) fn instruction_rank(path: &str) -> Option<(usize, usize)> {
    if let Some(rank) = INSTRUCTIONS.iter().position(|name| *name == path) {
        return Some((0, rank));
    }
    let (above, name) = path.rsplit_once('/')?;
    let rank = INSTRUCTIONS.iter().take(NESTED).position(|known| *known == name)?;
    Some((above.split('/').count(), rank))
}

/// Names that hold secrets and nothing else.
const SECRETS: [&str; 34] = [
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".pypirc",
    ".git-credentials",
    ".dockercfg",
    ".dockerconfigjson",
    ".vault-token",
    ".vault_pass",
    ".vault_pass.txt",
    ".vault_password",
    ".s3cfg",
    ".boto",
    ".terraformrc",
    "terraform.rc",
    ".smbcredentials",
    "credentials",
    "credentials.toml",
    "credentials.json",
    "client_secret.json",
    "kubeconfig",
    "secrets.yml",
    "secrets.yaml",
    "secrets.json",
    "secrets.toml",
    "master.key",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
];

/// The same, where only the last two components tell.
const SECRET_PATHS: [&str; 3] = [".docker/config.json", ".kube/config", ".aws/config"];

const SECRET_ENDINGS: [&str; 15] = [
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".pkcs12",
    ".gpg",
    ".tfstate",
    ".tfstate.backup",
    ".tfvars",
    ".ovpn",
    ".keytab",
];

/// Endings that say a file of secrets is only shown how to write.
const SAMPLES: [&str; 6] = [".example", ".sample", ".template", ".dist", ".defaults", ".tpl"];

/// A secret by its name, whatever is in it.
pub(crate) fn is_secret(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let name = file_name(&path);
    if SAMPLES.iter().any(|ending| name.ends_with(ending)) {
        return false;
    }
    SECRETS.contains(&name)
        || name.starts_with(".env.")
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || SECRET_PATHS.iter().any(|end| path == *end || path.ends_with(&format!("/{end}")))
}

/// Settings that may hold a token: with one, nothing of them is worth the risk.
pub(crate) fn is_delicate(path: &str) -> bool {
    const NAMES: [&str; 10] = [
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        "pip.conf",
        ".gitconfig",
        "nuget.config",
        "settings.xml",
        ".condarc",
        ".mcp.json",
        "config.toml",
    ];
    NAMES.contains(&file_name(&path.to_ascii_lowercase()))
}

/// Written by a program: what it is made from says more.
pub(crate) fn is_generated(path: &str) -> bool {
    const NAMES: [&str; 19] = [
        "cargo.lock",
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "poetry.lock",
        "uv.lock",
        "pdm.lock",
        "pipfile.lock",
        "gemfile.lock",
        "composer.lock",
        "go.sum",
        "flake.lock",
        "mix.lock",
        "pubspec.lock",
        "podfile.lock",
        "packages.lock.json",
        "gradle.lockfile",
    ];
    const ENDINGS: [&str; 12] = [
        ".min.js",
        ".min.css",
        ".min.mjs",
        ".js.map",
        ".css.map",
        ".pb.go",
        ".pb.rs",
        "_pb2.py",
        "_pb2_grpc.py",
        ".g.dart",
        ".designer.cs",
        ".tsbuildinfo",
    ];
    const DIRECTORIES: [&str; 4] = ["node_modules", "__pycache__", ".venv", "bower_components"];
    let path = path.to_ascii_lowercase();
    let name = file_name(&path);
    NAMES.contains(&name)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || path.split('/').any(|part| DIRECTORIES.contains(&part))
}

/// No text, as far as the ending tells. Saves reading it; others are known by their content.
pub(crate) fn is_binary(path: &str) -> bool {
    const ENDINGS: [&str; 44] = [
        "7z", "a", "avi", "bin", "bmp", "bz2", "class", "dll", "dylib", "eot", "exe", "flac",
        "gif", "gz", "ico", "jar", "jpeg", "jpg", "lib", "mkv", "mov", "mp3", "mp4", "o", "obj",
        "ogg", "otf", "pdf", "png", "pyc", "rar", "so", "sqlite", "tar", "tgz", "tiff", "ttf",
        "wasm", "wav", "webp", "woff", "woff2", "xz", "zip",
    ];
    let name = file_name(path);
    name.rsplit_once('.')
        .is_some_and(|(_, end)| ENDINGS.iter().any(|e| e.eq_ignore_ascii_case(end)))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_ordered_by_depth_and_weight() {
        let mut paths = vec![
            "a/b/AGENTS.md",
            "README.md",
            "AGENTS.md",
            "a/CLAUDE.md",
            ".github/CONTRIBUTING.md",
        ];
        paths.sort_by_key(|path| instruction_rank(path));
        let order =
            ["AGENTS.md", ".github/CONTRIBUTING.md", "README.md", "a/CLAUDE.md", "a/b/AGENTS.md"];
        assert_eq!(paths, order);
        assert_eq!(instruction_rank("a/README.md"), None);
    }

    #[test]
    fn secrets_are_known_by_name() {
        for path in [
            ".env",
            "a/.ENV.production",
            "x.pem",
            "home/.ssh/id_rsa",
            "cert.P12",
            ".netrc",
            "a/.docker/config.json",
            "prod.tfvars",
            ".aws/credentials",
        ] {
            assert!(is_secret(path), "{path}");
        }
        for path in
            [".env.example", "id_rsa.pub", "src/env.rs", "config.json", "keys.rs", "a.pem.sample"]
        {
            assert!(!is_secret(path), "{path}");
        }
        assert!(is_delicate("web/.npmrc") && !is_delicate("npmrc.md"));
    }

    #[test]
    fn generated_and_binary_files_are_known_by_name() {
        assert!(is_generated("Cargo.lock") && is_generated("a/b.min.js"));
        assert!(is_generated("web/node_modules/x/index.js") && !is_generated("lock.rs"));
        assert!(is_binary("a/b.PNG") && !is_binary("a.png.md") && !is_binary("png"));
    }
}

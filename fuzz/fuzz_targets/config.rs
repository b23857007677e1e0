//! `countersign.toml`: any text gives a configuration or an error.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use countersign_host::config::Config;
use libfuzzer_sys::fuzz_target;

// The door is a file, so a file it is. A directory of our own keeps parallel runs apart.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| tempfile::tempdir().unwrap().keep().join("countersign.toml"));

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).unwrap();
    match Config::load(&FILE) {
        Ok(config) => assert!(config.input.max_bytes > 0 && config.input.max_depth > 0),
        Err(failure) => assert_eq!(failure.code, "CONFIG_INVALID"),
    }
});

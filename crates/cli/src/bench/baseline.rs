//! The bare costs that a durable call cannot avoid.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use countersign_model::Failure;
use rusqlite::{Connection, params};

/// Appends 4 KiB and syncs.
pub(super) struct FsyncBase(File);

impl FsyncBase {
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(dir.join("fsync"));
        file.map(FsyncBase).map_err(|error| failed(&error))
    }

    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        let page = [0u8; 4096];
        self.0.write_all(&page).and_then(|()| self.0.sync_data()).map_err(|error| failed(&error))
    }
}

/// Commits one small row, with the settings that the journal uses.
pub(super) struct SqliteBase(Connection);

impl SqliteBase {
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        let open = || {
            let connection = Connection::open(dir.join("bare.db"))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)")?;
            Ok(connection)
        };
        open().map(SqliteBase).map_err(|error: rusqlite::Error| failed(&error))
    }

    pub(super) fn commit(&mut self, id: u64) -> Result<(), Failure> {
        let insert = || {
            let sql = "INSERT INTO rows (id, body) VALUES (?1, ?2)";
            self.0.prepare_cached(sql)?.execute(params![id, [0u8; 100]])
        };
        insert().map(|_| ()).map_err(|error| failed(&error))
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::resource("BENCH_FAILED", format!("the measurement failed: {error}"))
}

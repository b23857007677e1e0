# tries: a database with a write-ahead log in /tmp and one in the workspace
# expect: exit 0
import sqlite3

for path, mode in (("/tmp/data.db", "wal"), ("/workspace/data.db", "delete")):
    database = sqlite3.connect(path)
    print(database.execute(f"pragma journal_mode={mode}").fetchone())
    with database:
        database.execute("create table numbers (n integer)")
        database.executemany("insert into numbers values (?)", ((n,) for n in range(10000)))
    print(database.execute("select count(*), sum(n) from numbers").fetchone())
    print(database.execute("pragma integrity_check").fetchone())
    database.close()

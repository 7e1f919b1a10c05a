import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closeDb, type Db, openDb } from "../src/platform/db/db.ts";
import { migrate } from "../src/platform/db/migrate.ts";

let template: Uint8Array | undefined;

/** The bytes of an empty database of the newest schema. The migrations run once in a test process, not once a test. */
function emptyDatabase(): Uint8Array {
  if (template !== undefined) return template;
  const dir = mkdtempSync(join(tmpdir(), "verk-test-template-"));
  try {
    const path = join(dir, "verk.db");
    const db = openDb({ path });
    migrate(db, join(dir, "backups"));
    // A statement that is not collected yet keeps the log file beyond the close: the log is emptied before.
    const { busy } = db.$client.query("PRAGMA wal_checkpoint(TRUNCATE)").get() as { busy: number };
    if (busy !== 0) throw new Error("the template is not whole: its write-ahead log could not be emptied");
    closeDb(db);
    template = readFileSync(path);
    return template;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Opens the database of `dir`, or makes one of the newest schema. An older one is migrated, as a server would do. */
export function openMigrated(dir: string): Db {
  const path = join(dir, "verk.db");
  if (!existsSync(path)) writeFileSync(path, emptyDatabase(), { mode: 0o600 });
  const db = openDb({ path });
  migrate(db, join(dir, "backups"));
  return db;
}

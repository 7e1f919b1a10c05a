import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closeDb, type Db, openDb } from "../src/platform/db.ts";
import { migrate } from "../src/platform/migrate.ts";

let template: Uint8Array | undefined;

/** The bytes of an empty database of the newest schema. The migrations run once in a test process, not once a test. */
function emptyDatabase(): Uint8Array {
  if (template !== undefined) return template;
  const dir = mkdtempSync(join(tmpdir(), "verk-test-template-"));
  try {
    const path = join(dir, "verk.db");
    const db = openDb({ path });
    migrate(db, join(dir, "backups"));
    db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)"); // statements that are kept may keep the log after close()
    if (statSync(`${path}-wal`).size > 0)
      throw new Error("the template is not whole: its write-ahead log is not empty");
    template = readFileSync(path);
    closeDb(db);
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

/**
 * Every byte that a tenant causes to be stored passes a meter while it is written (src/platform/storage/meter.ts). The
 * writers of src/platform/files.ts, the storage and the row files take a meter; nothing else writes, except the files below.
 */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { writesOf } from "./stored_bytes.ts";

const ROOT = resolve(import.meta.dir, "../..");
const sources = [...new Bun.Glob("src/**/*.{ts,tsx}").scanSync(ROOT)].filter((file) => !file.includes(".test.")).sort();
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

/** Folders outside the server process. */
const ELSEWHERE: Record<string, string> = {
  "src/cli/": "files of the person who runs the command, of the operator, or of a node, which is another machine",
  "src/native/": "libraries and pipes of the program itself",
  "src/workers/": "a worker writes where the server lets it; the server counts with watchGrowth, or when it reports",
};

/** Files that write content of tenants with other means. Each takes the bytes from a meter first, there or in the file named. */
const COUNTED: Record<string, { writes: string[]; counts?: string }> = {
  "src/platform/backup/source.ts": { writes: ["Database", "UNCOUNTED", "open"] },
  "src/platform/rows/copy.ts": { writes: ["openRows"] },
  "src/platform/rows/writer.ts": { writes: ["openRows"] },
  "src/resources/data/datasets/stream/open_rows.ts": {
    writes: ["openRows"],
    counts: "src/resources/data/datasets/stream/append.ts",
  },
  "src/resources/serving/models/hub/download.ts": { writes: ["open"] },
  "src/resources/serving/models/upload/files.ts": { writes: ["copyFile", "link"] },
  "src/resources/training/training_jobs/logs/file.ts": { writes: ["ftruncateSync", "writeSync"] },
  "src/resources/data/volumes/materialize.ts": { writes: ["copyFile", "link"] },
  "src/sandbox/files/trees.ts": { writes: ["O_CREAT", "copyFile", "open"] },
};

/** Files of the server itself, and why their bytes are not those of a tenant. */
const OWN: Record<string, { writes: string[]; why: string }> = {
  "src/platform/backup/pages.ts": { writes: ["open"], why: "a backup that is restored, outside a data directory" },
  "src/platform/backup/restore.ts": {
    writes: ["UNCOUNTED", "rename", "writeFileAtomic"],
    why: "an operator restores a backup while no server runs",
  },
  "src/platform/backup/staging_meter.ts": { writes: ["UNCOUNTED"], why: "copies on another disk than the data" },
  "src/platform/backup/target.ts": { writes: ["writeFileAtomic"], why: "the place of the backups" },
  "src/platform/db/data_lock.ts": { writes: ["Database", "renameSync", "writeFileSync"], why: "the lock" },
  "src/platform/db/db.ts": { writes: ["Database", "openSync"], why: "the database, whose space the reserve keeps" },
  "src/platform/db/migrate.ts": {
    writes: ["VACUUM INTO", "openSync", "renameSync"],
    why: "the copy of the database before a change of its schema",
  },
  "src/platform/files.ts": {
    writes: ["UNCOUNTED", "open", "openSync", "rename", "renameSync", "writeSync"],
    why: "the writers themselves",
  },
  "src/platform/locked_folder.ts": { writes: ["Database"], why: "a lock" },
  "src/platform/log.ts": { writes: ["writeSync"], why: "the log of the server" },
  "src/platform/machine/priority.ts": { writes: ["writeFileSync"], why: "a setting of the kernel" },
  "src/platform/master_key.ts": { writes: ["linkSync", "openSync", "renameSync", "writeSync"], why: "the master key" },
  "src/platform/providers/leases.ts": {
    writes: ["writeFileAtomicSync"],
    why: "a few bytes for each machine of a cloud",
  },
  "src/platform/providers/link.ts": { writes: ["writeFileAtomicSync"], why: "a key file while ssh starts" },
  "src/platform/rows/file.ts": { writes: ["openSync"], why: "flushes a file of rows" },
  "src/platform/storage/local.ts": { writes: ["UNCOUNTED"], why: "refs; and a put of a test without a meter" },
  "src/platform/storage/local_objects.ts": { writes: ["renameSync"], why: "moves damaged content aside" },
  "src/platform/storage/local_sums.ts": { writes: ["rename", "writeFile"], why: "8 bytes for each block of 64 KiB" },
  "src/platform/tls/challenges.ts": { writes: ["writeFileAtomicSync"], why: "certificates" },
  "src/platform/updates/database.ts": {
    writes: ["Database", "copyFileSync", "linkSync", "openSync", "renameSync"],
    why: "the copy of the database before an upgrade",
  },
  "src/platform/updates/program.ts": {
    writes: ["linkSync", "renameSync", "writeFileAtomicSync"],
    why: "the program and its journal",
  },
  "src/platform/updates/read_bundle.ts": { writes: ["UNCOUNTED"], why: "an upgrade of the operator" },
  "src/platform/updates/write_bundle.ts": { writes: ["UNCOUNTED"], why: "an upgrade of the operator" },
  "src/platform/workers/folder.ts": {
    writes: ["copyFile", "linkSync"],
    why: "links of models into the folder of a worker; a copy only where links are impossible, for as long as it runs",
  },
  "src/resources/detection/adaptation.ts": {
    writes: ["writeFileAtomicSync"],
    why: "the operator adapts the detectors",
  },
  "src/resources/serving/deployments/prefixes/blocks.ts": {
    writes: ["writeFileAtomic"],
    why: "four bytes: the format of the blocks",
  },
  "src/resources/serving/deployments/prefixes/store.ts": {
    writes: ["writeFileAtomicSync"],
    why: "four bytes: the format of the blocks",
  },
  "src/resources/machines/clouds/key.ts": { writes: ["renameSync"], why: "the SSH key of the server" },
  "src/resources/serving/models/files/import.ts": {
    writes: ["copyFile", "open", "rename"],
    why: "an import of the operator",
  },
  "src/sandbox/files/notes.ts": {
    writes: ["UNCOUNTED"],
    why: "notes of the server beside a session, a line for each file",
  },
  "src/sandbox/jail/jail.ts": { writes: ["writeSync"], why: "a pipe to a command" },
  "src/sandbox/jail/share.ts": { writes: ["writeFileSync"], why: "settings of the kernel" },
};

test("only the listed files write without a meter", () => {
  const found = Object.fromEntries(
    sources
      .filter((file) => !Object.keys(ELSEWHERE).some((folder) => file.startsWith(folder)))
      .map((file) => [file, writesOf(read(file))] as const)
      .filter(([, writes]) => writes.length > 0),
  );
  const listed = { ...COUNTED, ...OWN };
  expect(found).toEqual(Object.fromEntries(Object.entries(listed).map(([file, { writes }]) => [file, writes])));
});

test.each(Object.entries(COUNTED))("%s takes the bytes from a meter", (file, { counts = file }) => {
  expect(read(counts)).toContain("meter.take(");
});

test("workers whose files are large are watched while they write", () => {
  const watching = sources.filter((file) => /\bwatchGrowth\(/.test(read(file)));
  expect(watching).toEqual([
    "src/platform/storage/growth.ts",
    "src/resources/data/datasets/stream/intake.ts",
    "src/resources/serving/models/files/convert.ts",
    "src/resources/serving/models/registry/quantize.ts",
    "src/resources/training/training_jobs/artifacts/exports.ts",
  ]);
});

test.each([
  ['import { writeFile } from "node:fs/promises";', ["writeFile"]],
  ['import { open } from "node:fs/promises";\nawait open(path, "wx", 0o600);', ["open"]],
  ['import { open, readFile } from "node:fs/promises";\nawait open(path, "r");', []],
  ['import { openSync } from "node:fs";\nopenSync(path, constants.O_RDONLY | constants.O_DIRECTORY);', []],
  ['import { openSync } from "node:fs";\nconst fd = openSync(to, "wx", 0o600);', ["openSync"]],
  ['import * as fs from "node:fs";', ["*"]],
  ["await Bun.write(path, text);", ["Bun.write"]],
  ['new Database(path, { create: true });\nnew Database(":memory:");', ["Database"]],
  ["new Database(path, { readonly: true });", []],
  ['openRows(path, "build");', ["openRows"]],
  ['openRows(path, "read");', []],
  ["await ctx.storage.put(key, tarChunks(entries));", ["storage.put without a meter"]],
  ["await ctx.storage.put(key, tarChunks(entries), { meter });", []],
  ["await writeTemp(to, output, { maxBytes });", ["writeTemp without a meter"]],
  ["await writeTemp(to, lines(a, b), { meter: UNCOUNTED });", ["UNCOUNTED"]],
  ["/** writes with Bun.write( */\nconst a = 1; // Bun.write(", []],
])("the scan of %s", (text, writes) => expect(writesOf(text)).toEqual(writes as string[]));

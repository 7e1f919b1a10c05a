import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import { createBackup } from "../../platform/backup/create.ts";
import type { Sealer } from "../../platform/backup/key_seal.ts";
import { openDirectory, type Repository } from "../../platform/backup/repository.ts";
import { restoreBackup, verifyBackup } from "../../platform/backup/restore.ts";
import { configFile, loadConfig } from "../../platform/config/config.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG } from "../args.ts";
import { count, note, print, printJson, printTable } from "../output.ts";

const PASSPHRASE = { type: "string", value: "FILE", doc: "File with the passphrase of the keys" } as const;
const FROM = { type: "string", value: "DIR", doc: "Directory with the backups" } as const;
const IDENTITY = { type: "string", value: "FILE", doc: "Private X25519 key that opens the keys (PEM)" } as const;

const create = command({
  summary: "Make a backup while the server runs or is stopped; only what changed is stored again",
  flags: {
    to: { type: "string", value: "DIR", doc: "Directory for the backups, best on another disk" },
    "passphrase-file": PASSPHRASE,
    recipient: { type: "string", value: "FILE", doc: "Public X25519 key to seal the keys to (PEM)" },
    "without-keys": { type: "boolean", doc: "Leave out the master key: secrets cannot be read after a restore" },
    "without-models": { type: "boolean", doc: "Leave out models/" },
    jobs: { type: "boolean", doc: "Include jobs/ with the checkpoints of training jobs" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: ["verk backup create --to /backup --passphrase-file passphrase.txt"],
  async run({ to, recipient, "passphrase-file": passphrase, jobs, json, ...flags }) {
    const sealer = sealerOf(passphrase, recipient);
    if (!sealer && !flags["without-keys"])
      throw new UsageError("backup create: seal the keys with --passphrase-file or --recipient, or say --without-keys");
    const target = resolve(required("to", to));
    const config = loadConfig({ file: configFile(flags.config), flags: { data_dir: flags.data } }); // root stays root
    const { manifest, storedBytes, attempts } = await createBackup({
      dataDir: config.data_dir,
      masterKeyFile: config.secrets.master_key_file,
      repository: await openDirectory(target, { create: true }),
      tempDir: join(target, "tmp"),
      version: VERSION,
      nowMs: Date.now(),
      sealer,
      models: !flags["without-models"],
      jobs,
      storage: config.storage.kind === "local",
    });
    const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
    if (json) printJson({ object: "backup", id: manifest.id, bytes, stored_bytes: storedBytes, attempts });
    else {
      print(manifest.id);
      note(
        `${count(manifest.files.length, "file")}, ${formatBytes(bytes)}, of which ${formatBytes(storedBytes)} are new`,
      );
    }
    return EXIT.ok;
  },
});

const list = command({
  summary: "List the backups of a directory, oldest first",
  flags: { from: FROM, json: JSON_FLAG },
  examples: ["verk backup list --from /backup"],
  async run({ from, json }) {
    const repository = await openDirectory(resolve(required("from", from)));
    const all = await Promise.all((await repository.list()).map((id) => repository.getManifest(id)));
    const bytesOf = ({ files }: (typeof all)[number]) => files.reduce((sum, file) => sum + file.bytes, 0);
    if (json)
      for (const each of all)
        printJson({ id: each.id, created_at: each.created_at, version: each.version, bytes: bytesOf(each) });
    else
      printTable(
        ["ID", "CREATED", "VERSION", "SIZE", "KEYS", "WITHOUT"],
        all.map((each) => [
          ...[each.id, each.created_at, each.version, formatBytes(bytesOf(each))],
          ...[each.keys?.kind ?? "none", each.without.join(", ") || "-"],
        ]),
        "There are no backups.",
        { full: true },
      );
    return EXIT.ok;
  },
});

const verify = command({
  summary: "Restore a backup into a temporary directory and check it",
  takes: ["ID?"],
  flags: { from: FROM, "passphrase-file": PASSPHRASE, identity: IDENTITY, json: JSON_FLAG },
  examples: ["verk backup verify --from /backup --passphrase-file passphrase.txt"],
  exits: { 5: "the backup is damaged or not complete" },
  async run({ from, "passphrase-file": passphrase, identity, json }, id?: string) {
    const repository = await openDirectory(resolve(required("from", from)));
    const manifest = await repository.getManifest(id ?? (await newest(repository)));
    const temp = mkdtempSync(join(tmpdir(), "verk-verify-"));
    try {
      const skip = (path: string) => /^(models|jobs)\//.test(path); // their chunks are hashed, and nothing opens them
      const faults = await verifyBackup({ repository, manifest, sealer: sealerOf(passphrase, identity), skip }, temp);
      if (json) printJson({ object: "backup_verification", id: manifest.id, ok: faults.length === 0, faults });
      else
        print(faults.length === 0 ? `${manifest.id} is sound` : [`${manifest.id} is not sound:`, ...faults].join("\n"));
      return faults.length === 0 ? EXIT.ok : EXIT.check;
    } finally {
      rmSync(temp, { recursive: true, force: true });
    }
  },
});

const restore = command({
  summary: "Write a backup into a new data directory",
  takes: ["ID?"],
  flags: {
    from: FROM,
    to: { type: "string", value: "DIR", doc: "The new data directory; it must not exist" },
    "passphrase-file": PASSPHRASE,
    identity: IDENTITY,
    "without-keys": { type: "boolean", doc: "Restore without the master key" },
  },
  examples: ["verk backup restore --from /backup --to /var/lib/verk --passphrase-file passphrase.txt"],
  async run({ from, to, identity, "passphrase-file": passphrase, "without-keys": withoutKeys }, id?: string) {
    const repository = await openDirectory(resolve(required("from", from)));
    const manifest = await repository.getManifest(id ?? (await newest(repository)));
    const sealer = sealerOf(passphrase, identity);
    if (manifest.keys && !sealer && !withoutKeys)
      throw new UsageError("backup restore: open the keys with --passphrase-file or --identity, or say --without-keys");
    const target = resolve(required("to", to));
    await restoreBackup({ repository, manifest, to: target, sealer });
    print(target);
    note(`${manifest.id} of ${manifest.created_at} is restored. The user of the service must own the directory.`);
    if (!manifest.keys || !sealer) note("There is no master key in it: put master.key there before the start.");
    return EXIT.ok;
  },
});

export const backup: Group = {
  summary: "Make, list, verify and restore backups",
  subcommands: { create, list, verify, restore },
};

function required(flag: string, value: string | undefined): string {
  if (value !== undefined) return value;
  throw new UsageError(`--${flag} is missing: name the directory of the backups`);
}

async function newest(repository: Repository): Promise<string> {
  const id = (await repository.list()).at(-1);
  if (id === undefined) throw new UsageError("There are no backups in this directory");
  return id;
}

/** Keys and passphrases come from files: other users can read process arguments. */
function sealerOf(passphraseFile: string | undefined, keyFile: string | undefined): Sealer | undefined {
  if (passphraseFile !== undefined && keyFile !== undefined)
    throw new UsageError("Use either a passphrase or a key, not both");
  if (passphraseFile !== undefined) return { passphrase: readText(passphraseFile).replace(/\r?\n$/, "") };
  return keyFile === undefined ? undefined : { recipient: readText(keyFile) };
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new UsageError(`Cannot read ${path} (${(cause as Error).message})`, 2, { cause });
  }
}

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { timeOf } from "../../lib/ids.ts";
import { isoTime } from "../../lib/time.ts";
import { VERSION } from "../../lib/version.ts";
import { openArchiveTarget } from "../../platform/backup/archive_target.ts";
import { createBackup, type Made, requireDataDir } from "../../platform/backup/create.ts";
import { stateAt } from "../../platform/backup/log.ts";
import type { Manifest } from "../../platform/backup/manifest.ts";
import { ARCHIVE, openTarget, sealerOf, withTemp } from "../../platform/backup/open.ts";
import { openRepository, type Repository } from "../../platform/backup/repository.ts";
import { restoreBackup, verifyBackup } from "../../platform/backup/restore.ts";
import { dueAt } from "../../platform/backup/schedule.ts";
import { stagingMeter } from "../../platform/backup/staging_meter.ts";
import type { BackupTarget } from "../../platform/backup/target.ts";
import type { Config } from "../../platform/config/config.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG, wholeOf } from "../args.ts";
import { count, note, print, printJson, printTable } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { follow } from "./operate/follow.ts";

const PASSPHRASE = {
  type: "string",
  value: "FILE",
  doc: "File with the passphrase of the keys (default: backup.passphrase_file)",
} as const;
const FROM = {
  type: "string",
  value: "TARGET",
  doc: "Directory or s3://BUCKET/FOLDER (default: backup.target)",
} as const;
const AT = {
  type: "string",
  value: "TIME",
  doc: "The newest state from this time or before, such as 2027-01-31T14:05:00Z, or latest; instead of an ID",
} as const;
const IDENTITY = { type: "string", value: "FILE", doc: "Private X25519 key that opens the keys (PEM)" } as const;

const create = command({
  summary: "Make a backup while the server runs or is stopped; only what changed is stored again",
  flags: {
    to: {
      type: "string",
      value: "TARGET",
      doc: "Directory, s3://BUCKET/FOLDER, or - for a tar archive on standard output (default: backup.target)",
    },
    "passphrase-file": PASSPHRASE,
    recipient: {
      type: "string",
      value: "FILE",
      doc: "Public X25519 key to seal the keys to (PEM; default: backup.recipient_file)",
    },
    "without-keys": { type: "boolean", doc: "Leave out the master key: secrets cannot be read after a restore" },
    "without-models": { type: "boolean", doc: "Leave out models/" },
    jobs: { type: "boolean", doc: "Include jobs/ with the checkpoints of training jobs" },
    keep: { type: "string", value: "N", doc: "Then remove all but the newest N backups (default: all stay)" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: [
    "verk backup create --to /backup --passphrase-file passphrase.txt",
    "verk backup create --to - --without-keys > backup.tar",
  ],
  async run({ to, recipient, "passphrase-file": passphrase, jobs, keep, json, ...flags }) {
    const config = settingsOf(flags); // root stays root
    const isSealedByFlags = passphrase !== undefined || recipient !== undefined;
    const sealer = isSealedByFlags
      ? sealerOf(passphrase, recipient)
      : sealerOf(config.backup.passphrase_file, config.backup.recipient_file);
    if (!sealer && !flags["without-keys"])
      throw new UsageError("backup create: seal the keys with --passphrase-file or --recipient, or say --without-keys");
    const most = wholeOf("keep", keep);
    if (most === 0) throw new UsageError("--keep: expected 1 or more");
    const target = targetOf("to", to, config);
    requireDataDir(config.data_dir); // before the place of the backups is made
    const make = (place: BackupTarget) =>
      withTemp(target, (tempDir) =>
        createBackup({
          dataDir: config.data_dir,
          masterKeyFile: config.secrets.master_key_file,
          repository: openRepository(place),
          tempDir,
          meter: stagingMeter(config, tempDir),
          version: VERSION,
          nowMs: Date.now(),
          sealer: flags["without-keys"] ? undefined : sealer,
          models: config.backup.models && !flags["without-models"],
          jobs: config.backup.jobs || jobs,
          storage: config.storage.kind === "local",
        }),
      );
    if (target === ARCHIVE) {
      await toArchive(make);
      return EXIT.ok;
    }
    const place = await openTarget(target, config, { create: true });
    const result = await make(place);
    report(result, json);
    if (most !== undefined) {
      const { backups } = await openRepository(place).prune(most, Date.now());
      if (backups > 0) note(`${count(backups, "older backup")} removed`);
    }
    return EXIT.ok;
  },
});

function report({ manifest, storedBytes, attempts }: Made, json: boolean) {
  const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
  if (json) return printJson({ object: "backup", id: manifest.id, bytes, stored_bytes: storedBytes, attempts });
  print(manifest.id);
  note(`${count(manifest.files.length, "file")}, ${formatBytes(bytes)}, of which ${formatBytes(storedBytes)} are new`);
}

async function toArchive(make: (place: BackupTarget) => Promise<Made>) {
  if (process.stdout.isTTY)
    throw new UsageError("backup create: --to - writes an archive. Send it to a file or a program.");
  const writer = Bun.stdout.writer();
  const place = openArchiveTarget(async (bytes) => {
    writer.write(bytes);
    await writer.flush();
  });
  const { manifest } = await make(place);
  await place.end();
  await writer.end();
  note(`${manifest.id}: ${count(manifest.files.length, "file")}. Extract the archive into a directory to restore it.`);
}

const list = command({
  summary: "List backups, oldest first",
  flags: { from: FROM, config: CONFIG_FLAG, json: JSON_FLAG },
  examples: ["verk backup list --from /backup"],
  async run({ from, config, json }) {
    const repository = await repositoryOf(from, settingsOf({ config }));
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
    const log = await repository.listLog();
    const [first, last] = [log[0], log.at(-1)];
    if (first && last)
      note(`The log of changes goes from ${isoTime(timeOf(first))} to ${isoTime(timeOf(last))}: restore --at TIME.`);
    return EXIT.ok;
  },
});

const verify = command({
  summary: "Restore a backup into a temporary directory and check it",
  takes: ["ID?"],
  flags: {
    from: FROM,
    at: AT,
    "passphrase-file": PASSPHRASE,
    identity: IDENTITY,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: ["verk backup verify --from /backup --passphrase-file passphrase.txt"],
  exits: { 5: "the backup is damaged or not complete" },
  async run({ from, at, "passphrase-file": passphrase, identity, config, json }, id?: string) {
    const settings = settingsOf({ config });
    const repository = await repositoryOf(from, settings);
    const manifest = await chosen(repository, id, at);
    const temp = mkdtempSync(join(tmpdir(), "verk-verify-"));
    try {
      const skip = (path: string) => /^(models|jobs)\//.test(path); // their chunks are hashed, and nothing opens them
      const sealer = openerOf(passphrase, identity, settings);
      const faults = await verifyBackup({ repository, manifest, sealer, skip }, temp);
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
    at: AT,
    "without-keys": { type: "boolean", doc: "Restore without the master key" },
    config: CONFIG_FLAG,
  },
  examples: [
    "verk backup restore --from /backup --to /var/lib/verk --passphrase-file passphrase.txt",
    "verk backup restore --at 2027-01-31T14:05:00Z --to restored",
  ],
  async run(
    { from, to, at, identity, config, "passphrase-file": passphrase, "without-keys": withoutKeys },
    id?: string,
  ) {
    const settings = settingsOf({ config });
    const repository = await repositoryOf(from, settings);
    const manifest = await chosen(repository, id, at);
    const sealer = withoutKeys ? undefined : openerOf(passphrase, identity, settings);
    if (manifest.keys && !sealer && !withoutKeys)
      throw new UsageError("backup restore: open the keys with --passphrase-file or --identity, or say --without-keys");
    if (to === undefined) throw new UsageError("--to is missing: name the new data directory");
    const target = resolve(to);
    await restoreBackup({ repository, manifest, to: target, sealer });
    print(target);
    note(`${manifest.id} of ${manifest.created_at} is restored. The user of the service must own the directory.`);
    if (!manifest.keys || !sealer) note("There is no master key in it: put master.key there before the start.");
    return EXIT.ok;
  },
});

const schedule = command({
  summary: "Show when the server makes backups, and when it made the last one",
  flags: { config: CONFIG_FLAG, json: JSON_FLAG },
  examples: ["verk backup schedule"],
  exits: { 5: "the newest backup is older than the schedule allows" },
  async run({ config, json }) {
    const settings = settingsOf({ config });
    const { target, schedule: pattern, keep } = settings.backup;
    if (pattern === "")
      throw new UsageError(
        'There is no schedule. Set backup.target = "/backup" and backup.schedule = "30 2 * * *" in the configuration.',
      );
    const isMissing = target.startsWith("/") && !existsSync(join(target, "backups")); // the first backup makes it
    const id = isMissing ? undefined : (await (await repositoryOf(undefined, settings)).list()).at(-1);
    const { last, next, late } = dueAt(pattern, id === undefined ? undefined : timeOf(id), Date.now());
    if (json) printJson({ object: "backup_schedule", target, schedule: pattern, keep, last, next, late });
    else
      print(
        `Target    ${target}\nSchedule  ${pattern} (UTC), keep ${keep}\nLast      ${last ?? "none"}\nNext      ${next}`,
      );
    const fault = id === undefined ? "There is no backup yet." : "The newest backup is older than the schedule allows.";
    if (late) note(`${fault} Is the server running? See its log.`);
    return late ? EXIT.check : EXIT.ok;
  },
});

export const backup: Group = {
  summary: "Make, list, verify and restore backups",
  subcommands: { create, list, verify, restore, schedule, follow },
};

function targetOf(flag: string, value: string | undefined, { backup: { target } }: Config): string {
  const place = value ?? target;
  if (place !== "") return place;
  throw new UsageError(`--${flag} is missing: name the place of the backups, or set backup.target`);
}

const repositoryOf = async (from: string | undefined, config: Config): Promise<Repository> =>
  openRepository(await openTarget(targetOf("from", from, config), config));

/** A recipient is a public key: it opens nothing, so only the passphrase has a setting. */
const openerOf = (passphrase: string | undefined, identity: string | undefined, { backup }: Config) =>
  sealerOf(passphrase ?? (identity === undefined ? backup.passphrase_file : undefined), identity);

async function chosen(repository: Repository, id: string | undefined, at: string | undefined): Promise<Manifest> {
  if (at === undefined) return repository.getManifest(id ?? (await newest(repository)));
  if (id !== undefined) throw new UsageError("Name either a backup or --at TIME, not both");
  const atMs = at === "latest" ? Number.MAX_SAFE_INTEGER : Date.parse(at);
  if (Number.isNaN(atMs)) throw new UsageError(`--at: expected a time such as 2027-01-31T14:05:00Z, or latest`);
  return stateAt(repository, atMs);
}

async function newest(repository: Repository): Promise<string> {
  const id = (await repository.list()).at(-1);
  if (id === undefined) throw new UsageError("There are no backups at this place");
  return id;
}

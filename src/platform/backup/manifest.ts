/**
 * The content of a place of backups. Its owner may be another than the operator, and sealing needs only a public key.
 * So nothing is believed without these limits.
 */
import { z } from "zod";
import { outside, table } from "../../lib/json/outside.ts";
import { later } from "../../lib/schema.ts";
import { MIB } from "../../lib/units.ts";

const MOST_FILES = 5_000_000;
const MOST_CHUNKS = 5_000_000;
/** A file with more patches is stored whole again (pages.ts). */
export const MOST_PATCHES = 500;
/** A chunk of a file has 4 MiB, and a patch a page more. */
export const MOST_CHUNK_BYTES = 8 * MIB;
const MOST_KEYS = 1_000;

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/** A path below the data directory. A restore creates it, so it must not lead outside. */
const Path = z
  .string()
  .max(4_000)
  .refine(
    (path) => path.split("/").every((part) => part !== "" && part !== "." && part !== "..") && !path.includes("\0"),
  );

/** Key files are sealed. Another name never leaves the seal. */
const KeyPath = Path.refine(
  (path) => path === "master.key" || /^tls\/[^/]+$/.test(path),
  "is not master.key or a file in tls/",
);

const isUnique = (files: readonly { path: string }[]) => new Set(files.map(({ path }) => path)).size === files.length;

const BackupFile = later(() =>
  z.strictObject({
    path: Path,
    bytes: z.int().min(0),
    chunks: z.array(Hash).max(MOST_CHUNKS),
    /** Changed pages of a SQLite file, in the order of time; see pages.ts. Only entries of the log have them. */
    patches: z.array(Hash).max(MOST_PATCHES).optional(),
  }),
);
export type BackupFile = z.infer<typeof BackupFile>;

/** How the keys are encrypted. All texts are base64. */
const SealedKeys = later(() =>
  z.strictObject({
    kind: z.enum(["passphrase", "recipient"]),
    /** Salt of scrypt, or the sender's public key. */
    hint: z.string().max(1_000),
    sealed: z.string().max(16 * MIB),
  }),
);
export type SealedKeys = z.infer<typeof SealedKeys>;

const Manifest = later(() =>
  z.strictObject({
    format: z.literal(1),
    id: z.string().regex(/^bkp_[0-9a-z]{26}$/),
    created_at: z.iso.datetime().max(40),
    version: z.string().max(100),
    schema: z.int(),
    /** Parts of the data directory that were left out: models, jobs, storage. */
    without: z.array(z.string().max(40)).max(10),
    keys: SealedKeys.nullable(),
    files: z.array(BackupFile).max(MOST_FILES).refine(isUnique, "a path is there twice"),
  }),
);
export type Manifest = z.infer<typeof Manifest>;

/** One state of the data directory in the log of changes. */
const LogEntry = later(() =>
  Manifest.unwrap().extend({
    /** The entry that has the whole list of files; null: this one. The others list what differs from it. */
    base: Manifest.unwrap().shape.id.nullable(),
    /** Paths of the base that are gone. */
    removed: z.array(Path).max(MOST_FILES),
  }),
);
export type LogEntry = z.infer<typeof LogEntry>;

const Wrapped = later(() => z.strictObject({ sha256: Hash, manifest: z.string().max(512 * MIB) }));
const Ref = later(() => z.object({ sha256: Hash, bytes: z.int().min(0) }));

/** Commands alone read them. `MANIFEST` and `LOG_ENTRY` are a text inside `WRAPPED`. */
const LARGE = { mostBytes: 512 * MIB, parsing: "command" } as const;
export const WRAPPED = outside("the file of the manifest", Wrapped, LARGE);
export const MANIFEST = outside("the manifest", Manifest, LARGE);
export const LOG_ENTRY = outside("the entry of the log", LogEntry, LARGE);
export const KEY_FILES = outside(
  "the list of sealed keys",
  later(() =>
    table(z.string().max(MIB), { most: MOST_KEYS, key: 4_000 }).refine(
      (keys) => Object.keys(keys).every((name) => KeyPath.safeParse(name).success),
      "a name is not master.key or a file in tls/",
    ),
  ),
  { mostBytes: 16 * MIB, parsing: "command" },
);
export const STORED_REF = outside("a reference to stored content", Ref);

import { z } from "zod";

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/** A path below the data directory. A restore creates it, so it must not lead outside. */
const Path = z.string().refine((path) => path.split("/").every((part) => part !== "" && part !== "." && part !== ".."));

const BackupFile = z.strictObject({
  path: Path,
  bytes: z.int().min(0),
  chunks: z.array(Hash),
  /** Changed pages of a SQLite file, in the order of time; see pages.ts. Only entries of the log have them. */
  patches: z.array(Hash).optional(),
});
export type BackupFile = z.infer<typeof BackupFile>;

/** How the keys are encrypted. All texts are base64. */
const SealedKeys = z.strictObject({
  kind: z.enum(["passphrase", "recipient"]),
  /** Salt of scrypt, or the sender's public key. */
  hint: z.string(),
  sealed: z.string(),
});
export type SealedKeys = z.infer<typeof SealedKeys>;

export const Manifest = z.strictObject({
  format: z.literal(1),
  id: z.string().regex(/^bkp_[0-9a-z]{26}$/),
  created_at: z.iso.datetime(),
  version: z.string(),
  schema: z.int(),
  /** Parts of the data directory that were left out: models, jobs, storage. */
  without: z.array(z.string()),
  keys: SealedKeys.nullable(),
  files: z.array(BackupFile),
});
export type Manifest = z.infer<typeof Manifest>;

/** One state of the data directory in the log of changes. */
export const LogEntry = Manifest.extend({
  /** The entry that has the whole list of files; null: this one. The others list what differs from it. */
  base: Manifest.shape.id.nullable(),
  /** Paths of the base that are gone. */
  removed: z.array(Path),
});
export type LogEntry = z.infer<typeof LogEntry>;

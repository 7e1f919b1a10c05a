import { z } from "zod";

const Hash = z.string().regex(/^[0-9a-f]{64}$/);

/** A path below the data directory. A restore creates it, so it must not lead outside. */
const Path = z.string().refine((path) => path.split("/").every((part) => part !== "" && part !== "." && part !== ".."));

const BackupFile = z.strictObject({ path: Path, bytes: z.int().min(0), chunks: z.array(Hash) });
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

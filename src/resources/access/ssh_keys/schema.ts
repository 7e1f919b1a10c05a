import { z } from "zod";
import { DateTime, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { SshKeyRow } from "./table.ts";

const MAX_KEY_LENGTH = 16_384;

export const SshKey = later(() =>
  z
    .object({
      object: z.literal("ssh_key"),
      id: z.string(),
      name: z.string(),
      public_key: z.string(),
      fingerprint: z.string().describe("SHA256:…, as `ssh-keygen -lf` prints it"),
      type: z.string().describe("ssh-ed25519, ssh-rsa, ecdsa-sha2-nistp256…"),
      provider: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
    })
    .meta({ id: "SshKey" }),
);
export type SshKey = z.infer<typeof SshKey>;

export const CreateSshKey = later(() =>
  z
    .object({
      name: Label(100),
      public_key: z.string().min(1).max(MAX_KEY_LENGTH).describe("One line, as in an id_*.pub file"),
      private_key: z
        .string()
        .min(1)
        .max(MAX_KEY_LENGTH)
        .describe("OpenSSH, PKCS#8, PKCS#1 or SEC1 text without a passphrase. Encrypted at rest, never shown again"),
      provider: Label(100).nullable().default(null).describe("The provider that this key is for; only a label"),
      metadata: Metadata.default({}),
    })
    .meta({ id: "CreateSshKey" }),
);
export type CreateSshKey = z.infer<typeof CreateSshKey>;

export const present = (row: SshKeyRow): SshKey => ({
  object: "ssh_key",
  id: row.id,
  name: row.name,
  public_key: row.publicKey,
  fingerprint: row.fingerprint,
  type: row.type,
  provider: row.provider,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
});

import { z } from "zod";
import { formatIp, normalizeHost, parseIp } from "../../../lib/net/ip.ts";
import { DateTime, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import type { SecretRow } from "./table.ts";

export const NAME = /^[A-Z_][A-Z0-9_]{0,63}$/;
const MAX_VALUE_BYTES = 64 * 1024;

export const Secret = later(() =>
  z
    .object({
      object: z.literal("secret"),
      id: z.string(),
      name: z.string(),
      scope_host: z.string().describe("The only host this secret may be sent to; empty: any host"),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Secret" }),
);
export type Secret = z.infer<typeof Secret>;

/** Returns a host name in lower case without a trailing dot, or an IP address in canonical form, or undefined. */
export function hostOf(text: string): string | undefined {
  const address = parseIp(text);
  return address ? formatIp(address) : normalizeHost(text);
}

export const PutSecret = later(() =>
  z
    .object({
      value: z
        .string()
        .min(1)
        .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
        .refine((text) => Buffer.byteLength(text) <= MAX_VALUE_BYTES, `must have at most ${MAX_VALUE_BYTES} bytes`)
        .describe("1 byte to 64 KiB; never shown again"),
      scope_host: z
        .string()
        .max(254)
        .refine(
          (text) => text === "" || hostOf(text) !== undefined,
          "must be a host such as api.example.com, without scheme, port or path",
        )
        .nullable()
        .optional()
        .describe("The only host this secret may be sent to; empty or null: any host. Omit it to keep the current one"),
      metadata: Metadata.optional().describe("Omit it to keep the current metadata"),
    })
    .meta({ id: "PutSecret" }),
);
export type PutSecret = z.infer<typeof PutSecret>;

export const SecretName = later(() =>
  z.object({
    name: z.string().describe("Letters A to Z, digits and _; does not begin with a digit"),
  }),
);

export const present = (row: SecretRow): Secret => ({
  object: "secret",
  id: row.id,
  name: row.name,
  scope_host: row.scopeHost ?? "",
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

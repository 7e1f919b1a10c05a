import { Cron } from "croner";
import { z } from "zod";
import { secret, section } from "./section.ts";

export const backup = section("Backups of the data directory (docs/backup.md).", {
  target: z
    .string()
    .refine((text) => text === "" || text.startsWith("/") || /^s3:\/\/[^/]+/.test(text), {
      message: "expected an absolute path of a directory, or s3://BUCKET/FOLDER",
    })
    .default("")
    .describe(
      "Directory (best on another disk) or s3://BUCKET/FOLDER for `verk backup`; empty = named by each command.",
    ),
  schedule: z
    .string()
    .refine(isCron, "expected five fields of cron, such as 30 2 * * * for every day at 02:30 UTC")
    .default("")
    .describe("When the server makes a backup at target: a cron pattern in UTC; empty = never."),
  keep: z.int().min(1).max(100_000).default(30).describe("Backups at target that stay; older ones are removed."),
  log_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .default(30)
    .describe("With a schedule, changes since the last backup are copied to target this often; 0 = never."),
  passphrase_file: z.string().default("").describe("File with the passphrase that the keys are encrypted to."),
  recipient_file: z
    .string()
    .default("")
    .describe("PEM file of the public X25519 key that the keys are encrypted to, instead of a passphrase."),
  models: z.boolean().default(true).describe("Include models/ except downloads."),
  jobs: z.boolean().default(false).describe("Include jobs/ with the checkpoints of training jobs."),
  s3_endpoint: z
    .string()
    .refine((text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)), "expected an http(s) address")
    .default("")
    .describe("Server of the bucket; empty = Amazon's own for the region."),
  s3_region: z.string().default("us-east-1").describe("The bucket's region."),
  s3_path_style: z.boolean().default(true).describe("Address the bucket in the path, not in the host name."),
  s3_access_key_id: secret(z.string().default("").describe("Empty = none: the bucket must be open to this machine.")),
  s3_secret_access_key: secret(z.string().default("").describe("Belongs to the access key.")),
});

function isCron(text: string): boolean {
  if (text === "") return true;
  try {
    return text.trim().split(/\s+/).length === 5 && new Cron(text, { paused: true }).nextRun() !== null;
  } catch {
    return false;
  }
}

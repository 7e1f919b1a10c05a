import { Cron } from "croner";
import { z } from "zod";
import { secret, section, setting } from "./section.ts";

export const backup = section("Backups of the data directory (docs/backup.md).", {
  target: setting(
    "",
    "Directory (best on another disk) or s3://BUCKET/FOLDER for `verk backup`; empty = named by each command.",
    () =>
      z.string().refine((text) => text === "" || text.startsWith("/") || /^s3:\/\/[^/]+/.test(text), {
        message: "expected an absolute path of a directory, or s3://BUCKET/FOLDER",
      }),
  ),
  schedule: setting("", "When the server makes a backup at target: a cron pattern in UTC; empty = never.", () =>
    z.string().refine(isCron, "expected five fields of cron, such as 30 2 * * * for every day at 02:30 UTC"),
  ),
  keep: setting(30, "Backups at target that stay; older ones are removed.", () => z.int().min(1).max(100_000)),
  log_seconds: setting(
    30,
    "With a schedule, changes since the last backup are copied to target this often; 0 = never.",
    () => z.int().min(0).max(86_400),
  ),
  passphrase_file: setting("", "File with the passphrase that the keys are encrypted to.", () => z.string()),
  recipient_file: setting(
    "",
    "PEM file of the public X25519 key that the keys are encrypted to, instead of a passphrase.",
    () => z.string(),
  ),
  models: setting(true, "Include models/ except downloads.", () => z.boolean()),
  jobs: setting(false, "Include jobs/ with the checkpoints of training jobs.", () => z.boolean()),
  s3_endpoint: setting("", "Server of the bucket; empty = Amazon's own for the region.", () =>
    z
      .string()
      .refine(
        (text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)),
        "expected an http(s) address",
      ),
  ),
  s3_region: setting("us-east-1", "The bucket's region.", () => z.string()),
  s3_path_style: setting(true, "Address the bucket in the path, not in the host name.", () => z.boolean()),
  s3_access_key_id: secret(setting("", "Empty = none: the bucket must be open to this machine.", () => z.string())),
  s3_secret_access_key: secret(setting("", "Belongs to the access key.", () => z.string())),
});

function isCron(text: string): boolean {
  if (text === "") return true;
  try {
    return text.trim().split(/\s+/).length === 5 && new Cron(text, { paused: true }).nextRun() !== null;
  } catch {
    return false;
  }
}

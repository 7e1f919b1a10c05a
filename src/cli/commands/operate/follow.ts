import { UsageError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { VERSION } from "../../../lib/version.ts";
import { MOST_ENTRIES, openLog } from "../../../platform/backup/log.ts";
import { openTarget, sealerOf, withTemp } from "../../../platform/backup/open.ts";
import { openRepository } from "../../../platform/backup/repository.ts";
import { stagingMeter } from "../../../platform/backup/staging_meter.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT } from "../../args.ts";
import { printJson } from "../../output.ts";
import { settingsOf } from "../../settings.ts";

export const follow = command({
  summary: "Copy changes to the backups every backup.log_seconds until it is stopped; the server runs it",
  flags: {
    "without-keys": { type: "boolean", doc: "Leave out the master key" },
    stdin: { type: "boolean", doc: "Stop when standard input ends" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
  },
  examples: ["verk backup follow"],
  async run({ stdin, "without-keys": withoutKeys, ...flags }) {
    const config = settingsOf(flags);
    const { passphrase_file: passphrase, recipient_file: recipient, log_seconds: seconds } = config.backup;
    const sealer = withoutKeys ? undefined : sealerOf(passphrase, recipient);
    if (!sealer && !withoutKeys)
      throw new UsageError("backup follow: set backup.passphrase_file or recipient_file, or say --without-keys");
    const { target } = config.backup;
    if (target === "") throw new UsageError("backup follow: set backup.target to the place of the backups");
    const place = await openTarget(target, config, { create: true });
    if (stdin) void Bun.stdin.text().then(() => process.exit(EXIT.ok)); // the server is gone
    const storage = config.storage.kind === "local";
    const about = { dataDir: config.data_dir, masterKeyFile: config.secrets.master_key_file, version: VERSION };
    return withTemp(target, async (tempDir) => {
      for (;;) {
        const append = openLog({
          ...about,
          repository: openRepository(place),
          tempDir,
          meter: stagingMeter(config, tempDir),
          sealer,
          storage,
        });
        for (let entries = 0; entries < MOST_ENTRIES; entries++) {
          const startedAt = performance.now();
          const nowMs = Date.now();
          const entry = await append(nowMs);
          // Without a change the log is complete up to now.
          printJson({ object: "backup_log_entry", created_at: isoTime(nowMs), ...entry });
          await Bun.sleep(Math.max(0, seconds * 1_000 - (performance.now() - startedAt)));
        }
      }
    });
  },
});

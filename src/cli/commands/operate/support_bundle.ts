import { existsSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { tarEnd, tarEntry } from "../../../lib/archive/tar_write.ts";
import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { configFile } from "../../../platform/config/config.ts";
import { writeFileAtomicSync } from "../../../platform/files.ts";
import { becomeOwnerOf } from "../../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT } from "../../args.ts";
import { note, print } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { partsOf, redactorFor } from "./support_parts.ts";

export const supportBundle = command({
  summary: "Write an archive for a request for help: settings, checks, counts and log, without secrets and content",
  flags: {
    to: { type: "string", value: "FILE", doc: "The archive (default: verk-support-TIME.tar.gz here)" },
    log: { type: "string", value: "FILE", doc: "File with the log of the server (default: journalctl -u verk)" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
  },
  examples: ["verk support-bundle", "verk support-bundle --to bundle.tar.gz --log /var/log/verk.log"],
  async run({ to, log, ...where }) {
    const nowMs = Date.now();
    const file = to ?? `verk-support-${isoTime(nowMs).replaceAll(/[:.]/g, "-")}.tar.gz`;
    if (existsSync(file)) throw new UsageError(`${file} exists: choose another name with --to`);
    if (log !== undefined && !existsSync(log)) throw new UsageError(`--log: there is no file ${log}`);
    const settings = settingsOf(where);
    becomeOwnerOf(settings.data_dir);
    const redact = await redactorFor(settings);
    const archive: Uint8Array[] = [];
    const names: string[] = [];
    for await (const { name, text } of partsOf({ config: settings, file: configFile(where.config), log, nowMs })) {
      archive.push(...tarEntry(`verk-support/${name}`, new TextEncoder().encode(redact(text)), 0o600));
      names.push(name);
    }
    const bytes = gzipSync(Buffer.concat([...archive, tarEnd()]));
    writeFileAtomicSync(file, bytes);
    print(file);
    note(`${formatBytes(bytes.length)}: ${names.join(", ")}. Read it before you send it.`);
    return EXIT.ok;
  },
});

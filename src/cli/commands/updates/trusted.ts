import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../../../lib/errors.ts";
import { readPublicKey } from "../../../platform/updates/minisign/keys.ts";
import { type Bundle, openBundle } from "../../../platform/updates/read_bundle.ts";
import { trustedKeys } from "../../../platform/updates/trust.ts";
import { settingsOf } from "../../settings.ts";

export const KEY_FLAG = {
  type: "string",
  value: "FILE",
  doc: "Public key to verify with (default: the key inside this program, and updates.trusted_keys)",
} as const;

/** Opens a bundle whose manifest has a signature that this machine trusts. */
export async function openTrusted(
  file: string,
  where: { key: string | undefined; config: string | undefined },
): Promise<Bundle> {
  const { key, config } = where;
  const keys = key === undefined ? trustedKeys(settingsOf({ config })) : [readPublicKey(textOf("key", key))];
  return await openBundle(resolve(file), keys);
}

export function textOf(flag: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError(`--${flag}: cannot read ${file}: ${(cause as Error).message}`, 2, { cause });
  }
}

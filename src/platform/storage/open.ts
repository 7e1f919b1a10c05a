import { join } from "node:path";
import type { Config } from "../config/config.ts";
import { readCaFile } from "../network/http_client.ts";
import type { OnDamage } from "./damage.ts";
import { openLocalStorage } from "./local.ts";
import type { Storage } from "./storage.ts";

/**
 * Opens the storage that `storage.kind` names. Throws UsageError when a setting is missing; it makes no connection yet.
 * `onDamage` is called when stored content turns out to be damaged.
 */
export function openStorage({ storage, network, data_dir }: Config, onDamage: OnDamage = () => {}): Storage {
  if (storage.kind === "local") return openLocalStorage(join(data_dir, "storage"), { onDamage });
  // Loaded only where it is used: the SDK is a tenth of a second and 15 MB of every start. Not by `import()`, because
  // a context is opened in one turn.
  const { openS3Storage } = require("./s3.ts") as typeof import("./s3.ts");
  return openS3Storage(storage, { ca: readCaFile(network.ca_file), onDamage });
}

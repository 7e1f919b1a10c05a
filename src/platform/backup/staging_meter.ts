import { statSync } from "node:fs";
import type { Config } from "../config/config.ts";
import { type Meter, UNCOUNTED } from "../files.ts";
import { DiskSpace } from "../machine/disk.ts";
import { Meters } from "../storage/meter.ts";

/** Copies on the disk of the data directory leave it the space that must stay free. */
export function stagingMeter(config: Pick<Config, "data_dir" | "storage">, tempDir: string): Meter {
  let meter: Meter | undefined; // the folder is made later
  const choose = () =>
    statSync(tempDir).dev === statSync(config.data_dir).dev ? new Meters(new DiskSpace({ config })).open() : UNCOUNTED;
  return {
    take(bytes) {
      meter ??= choose();
      meter.take(bytes);
    },
  };
}

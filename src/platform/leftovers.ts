import { join } from "node:path";
import { cleanTemp, errorCode } from "./files.ts";

/** Folders of the data directory in which only the server writes temporary files. */
const FOLDERS = ["storage/tmp", "tmp", "models/.uploads", "detection"];

/** Removes temporary files that a killed server left. The caller holds the data lock and writes nothing yet. */
export async function removeLeftovers(dataDir: string): Promise<number> {
  let removed = 0;
  for (const folder of FOLDERS)
    removed += await cleanTemp(join(dataDir, folder), 0, Number.POSITIVE_INFINITY).catch((error) => {
      if (errorCode(error) === "ENOENT") return 0;
      throw error;
    });
  return removed;
}

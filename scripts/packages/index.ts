/** Writes the packages of `scripts/build --packages` beside the executable: a .deb, an .rpm and an image for containers. */
import { join } from "node:path";
import { writeFileAtomicSync } from "../../src/platform/files.ts";
import type { Release } from "./contents.ts";
import { debName, writeDeb } from "./deb.ts";
import { ociName, writeOci } from "./oci.ts";
import { rpmName, writeRpm } from "./rpm.ts";

/** The names of the files. One package is in memory at a time, because each is as large as the executable. */
export async function writePackages(release: Release, dir: string): Promise<string[]> {
  const writers = [
    [debName(release), writeDeb],
    [rpmName(release), writeRpm],
    [ociName(release), writeOci],
  ] as const;
  for (const [name, write] of writers) writeFileAtomicSync(join(dir, name), await write(release), { mode: 0o644 });
  return writers.map(([name]) => name);
}

/** Embeds the license texts in the executable, and finds them for a run from source. */
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { constants, zstdCompressSync } from "node:zlib";
import type { Licenses } from "../../src/cli/licenses.ts";
import { VERSION } from "../../src/lib/version.ts";
import { platform } from "../../src/native/platform/index.ts";
import { ingredientsOf } from "../packages/components.ts";
import { licensesOf } from "../packages/licenses.ts";
import { nativeGroups, sha256 } from "./natives.ts";
import { bundledFiles, MAIN } from "./program.ts";
import { openTarget } from "./target.ts";

const LEVEL = 19;

export async function licensesFromSource(root: string): Promise<Licenses> {
  const target = openTarget(root, platform);
  const natives = nativeGroups({ root, target, cudaDir: undefined });
  const files = await bundledFiles({ root, entry: join(root, MAIN), target, natives });
  return licensesOf(root, VERSION, ingredientsOf({ root, platform, files }));
}

/** The module that replaces src/cli/licenses.ts in the executable. */
export function licensesModule(licenses: Licenses, stageDir: string): string {
  const text = JSON.stringify(licenses);
  const path = join(stageDir, `licenses-${sha256(text).slice(0, 32)}.zst`);
  if (!existsSync(path)) {
    mkdirSync(stageDir, { recursive: true });
    writeFileSync(`${path}.tmp`, zstdCompressSync(text, { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } }));
    renameSync(`${path}.tmp`, path);
  }
  return `import { readFileSync } from "node:fs";
import { zstdDecompressSync } from "node:zlib";
import packed from ${JSON.stringify(path)} with { type: "file" };
export const loadLicenses = async () => JSON.parse(zstdDecompressSync(readFileSync(packed)).toString());
`;
}

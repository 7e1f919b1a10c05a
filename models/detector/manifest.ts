/**
 * bun models/detector/manifest.ts: writes the sha256 and the size of every file of a model to models/manifest.json, after
 * files were replaced. Licences, roles and cards stay as they are.
 */
import { join } from "node:path";

const DIR = join(import.meta.dir, "..");
const path = join(DIR, "manifest.json");
const manifest = (await Bun.file(path).json()) as { models: { file: string; sha256: string; bytes: number }[] };
for (const model of manifest.models) {
  const bytes = await Bun.file(join(DIR, model.file)).bytes();
  const sha256 = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
  if (sha256 !== model.sha256) console.log(`${model.file}: ${bytes.length} bytes, sha256 ${sha256}`);
  Object.assign(model, { sha256, bytes: bytes.length });
}
await Bun.write(path, `${JSON.stringify(manifest, null, 2)}\n`);

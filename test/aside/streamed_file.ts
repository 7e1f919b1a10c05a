/** Writes a file of 256 MiB from a stream. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UNCOUNTED, writeStreamAtomic } from "../../src/platform/files.ts";
import { growthBy } from "./growth.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-stream-"));
const chunk = new Uint8Array(1 << 20);
const stream = async function* (pieces: number) {
  for (let i = 0; i < pieces; i++) yield chunk;
};
await writeStreamAtomic(join(dir, "small"), stream(4), { meter: UNCOUNTED }); // whatever is allocated once
let bytes = 0;
const growthBytes = await growthBy(async () => {
  ({ bytes } = await writeStreamAtomic(join(dir, "big"), stream(256), { meter: UNCOUNTED }));
});
rmSync(dir, { recursive: true, force: true });
console.log(JSON.stringify({ bytes, growthBytes }));

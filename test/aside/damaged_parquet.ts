/** Reads the Parquet file that stands on its standard input once for each third byte and each of three values there. */
import { SourceError } from "../../src/workers/connector/types.ts";
import { memoryFile, readAll } from "../connectors/formats_kit.ts";
import { growthBy } from "./growth.ts";

const bytes = await Bun.stdin.bytes();
let refused = 0;
const strange: string[] = [];
const growthBytes = await growthBy(async () => {
  for (let at = 0; at < bytes.byteLength; at += 3)
    for (const value of [0, 0xff, (bytes[at] as number) ^ 0x80]) {
      const damaged = bytes.slice();
      damaged[at] = value;
      await readAll(memoryFile("damaged.parquet", damaged)).catch((error: unknown) => {
        refused++;
        if (!(error instanceof SourceError) || error.code !== "invalid_rows") strange.push(`${at}: ${error}`);
      });
    }
});
console.log(JSON.stringify({ refused, strange, growthBytes }));

/** Reads the Parquet file that stands on its standard input, as it is. */
import { rowsOf } from "../../src/workers/connector/formats/rows.ts";
import { SourceError } from "../../src/workers/connector/types.ts";
import { memoryFile } from "../connectors/formats_kit.ts";
import { growthBy } from "./growth.ts";

const bytes = await Bun.stdin.bytes();
const found = { rows: 0, characters: 0, code: "", message: "" };
const growthBytes = await growthBy(async () => {
  try {
    const from = { row: 0, byte: null };
    for await (const { lines } of rowsOf(memoryFile("x.parquet", bytes), { rowBytes: 1_000_000, from })) {
      found.rows += lines.length;
      for (const line of lines) found.characters += line.length;
    }
  } catch (error) {
    if (!(error instanceof SourceError)) throw error;
    Object.assign(found, { code: error.code, message: error.message });
  }
});
console.log(JSON.stringify({ ...found, growthBytes }));

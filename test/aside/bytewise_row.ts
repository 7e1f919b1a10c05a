/** A row of a megabyte that comes byte by byte. */
import { createLineReader } from "../../src/lib/rows/lines.ts";
import { growthBy } from "./growth.ts";

const reader = createLineReader({ maxRowBytes: 1 << 24, format: undefined });
const growthBytes = await growthBy(() => {
  for (let at = 0; at < 1 << 20; at++) reader.push(new Uint8Array([120]));
});
console.log(JSON.stringify({ growthBytes }));

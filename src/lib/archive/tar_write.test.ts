import { expect, test } from "bun:test";
import { createLedger, type Sink } from "./entries.ts";
import { createTarReader } from "./tar_read.ts";
import { tarChunks } from "./tar_write.ts";

test("the reader returns what was written, also names that are too long for a header", async () => {
  const names = ["a.txt", `${"deep/".repeat(40)}ä.bin`, "empty", "x".repeat(100), "y".repeat(101)];
  const entries = names.map((name, i) => {
    const bytes = new TextEncoder().encode(i === 2 ? "" : `content of ${i}`.repeat(i * 100 + 1));
    return {
      name,
      size: bytes.length,
      bytes,
      content: async function* () {
        yield bytes;
      },
    };
  });
  const seen = new Map<string, number>();
  let open = "";
  const sink: Sink = {
    folder: () => {},
    open: (name) => {
      open = name;
      seen.set(name, 0);
    },
    write: (chunk) => void seen.set(open, (seen.get(open) ?? 0) + chunk.length),
    close: () => {},
  };
  const reader = createTarReader(createLedger(1e9), sink);
  for await (const chunk of tarChunks(entries)) reader.push(chunk);
  reader.end();
  expect([...seen]).toEqual(entries.map(({ name, size }) => [name, size]));
});

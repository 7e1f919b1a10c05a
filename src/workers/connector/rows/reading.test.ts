import { expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import type { Source } from "../../../lib/source.ts";
import { openRows } from "../../../platform/rows/file.ts";
import { type Connector, type Reading, SourceError } from "../types.ts";
import { readInto } from "./reading.ts";

type Task = Parameters<typeof readInto>[0];
type Host = Parameters<typeof readInto>[2];

const ANY_RATE = { bytes_per_second: 0, seconds: 60 };
const host = { stopping: new AbortController().signal, send() {}, beat() {} } as unknown as Host;
const taskFor = (path: string, mapping: Record<string, string> = {}) => {
  const source: Source = { source_type: "s3", source_uri: "s3://b/rows", hub_config: { column_mapping: mapping } };
  return { type: "read", source, credentials: {}, row_bytes: 8 << 20, path, min_rate: ANY_RATE } as unknown as Task;
};
const sourceOf = (rows: Connector["rows"]): Connector => ({
  test: async () => {},
  columns: async () => [],
  count: async () => null,
  rows,
});
const giving = (...rows: object[]) =>
  sourceOf(async function* () {
    yield { lines: rows.map((row) => JSON.stringify(row)), cursor: null };
  });
const stored = (path: string): unknown[] => {
  const file = openRows(path, "read");
  try {
    const bodies = [...file.blocks(1, file.lastRow())].map(({ body }) => new TextDecoder().decode(body));
    return bodies.flatMap((body) => body.trim().split("\n")).map((line) => JSON.parse(line));
  } finally {
    file.close();
  }
};
const turns = (text: string) => ({
  conversations: [
    { from: "human", value: text },
    { from: "gpt", value: "yes" },
  ],
});
const messages = (text: string) => ({
  messages: [
    { role: "user", content: text },
    { role: "assistant", content: "yes" },
  ],
});

test("a source gives the shapes that a file gives, after its columns are renamed", async () => {
  const cases: [object[], Record<string, string>, string, object[]][] = [
    [[turns("a"), turns("b")], {}, "chat", [messages("a"), messages("b")]],
    [[{ instruction: "a", output: "b" }], {}, "completion", [{ prompt: "a", completion: "b" }]],
    [[{ task: "a", output: "b" }], { task: "instruction" }, "completion", [{ prompt: "a", completion: "b" }]],
    [[{ q: "a", id: 7 }], { q: "prompt" }, "prompt", [{ prompt: "a", id: 7 }]],
    // Rows of our own stay as they are, whatever else they fit.
    [[{ prompt: "a", instruction: "b", output: "c" }], {}, "prompt", [{ prompt: "a", instruction: "b", output: "c" }]],
  ];
  for (const [rows, mapping, format, wanted] of cases) {
    const path = join(tempDir(), "rows.db");
    const read = await readInto(taskFor(path, mapping), giving(...rows), host);
    expect(read).toMatchObject({ type: "read", rows: rows.length, format });
    expect(stored(path)).toEqual(wanted);
  }
});

test("rows that fit two shapes of others, or none, are refused", async () => {
  const read = (row: object) => readInto(taskFor(join(tempDir(), "rows.db")), giving(row), host);
  await expect(read({ ...turns("a"), instruction: "b", output: "c" })).rejects.toThrow(
    "Row 1: the rows fit ShareGPT and Alpaca. Remove or rename a column",
  );
  await expect(read({ question: "a", answer: "b" })).rejects.toThrow("Row 1: prompt is missing");
});

test("a reading that continues keeps the shape of its beginning", async () => {
  const path = join(tempDir(), "rows.db");
  const long = "x".repeat(5 << 20); // more than one commit
  const broken = sourceOf(async function* () {
    yield { lines: [JSON.stringify(turns(long))], cursor: { at: 1 } };
    throw new SourceError("broken", "the connection was cut");
  });
  await expect(readInto(taskFor(path), broken, host)).rejects.toThrow("cut");
  const rest = sourceOf(async function* ({ resume }: Reading) {
    expect(resume).toEqual({ at: 1 });
    yield { lines: [JSON.stringify(turns("b"))], cursor: null };
  });
  expect(await readInto(taskFor(path), rest, host)).toMatchObject({ rows: 2, format: "chat" });
  expect(stored(path)).toEqual([messages(long), messages("b")]);
});

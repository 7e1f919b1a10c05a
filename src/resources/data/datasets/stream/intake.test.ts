import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { rowsAsParquet } from "../../../../../test/connectors/parquet_writer.ts";
import { datasetCalls } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp } from "../../../../../test/harness.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const { exported, get } = datasetCalls(() => app);

type Fields = Record<string, string>;
function sent(content: string | Uint8Array<ArrayBuffer>, filename: string, fields: Fields = {}, after: Fields = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ name: "up", ...fields })) form.append(name, value);
  form.append("file", new File([content], filename));
  for (const [name, value] of Object.entries(after)) form.append(name, value);
  return app.call("POST", "/v1/datasets", undefined, { raw: form });
}
const left = () =>
  readdirSync(join(app.dir, "datasets")).filter((name) => name.includes("part") || name.includes("tmp"));

describe("an uploaded file", () => {
  const alpaca = [
    { instruction: "Add 1 and 1", input: "", output: "2" },
    { instruction: "Translate", input: "eins", output: "one" },
  ];
  const stored = '{"prompt":"Add 1 and 1","completion":"2"}\n{"prompt":"Translate\\n\\neins","completion":"one"}\n';
  const lines = `${alpaca.map((row) => JSON.stringify(row)).join("\n")}\n`;
  const csv = 'instruction,input,output\nAdd 1 and 1,,2\n"Translate",eins,one\n';
  const kinds: [string, string, string | Uint8Array<ArrayBuffer>, string][] = [
    ["JSON lines", "a.jsonl", lines, "Alpaca, 2 rows → prompt/completion"],
    ["a JSON array", "a.json", JSON.stringify(alpaca, null, 2), "Alpaca in JSON, 2 rows → prompt/completion"],
    ["CSV", "a.csv", csv, "Alpaca in CSV, 2 rows → prompt/completion"],
    ["packed JSON lines", "a.jsonl.gz", new Uint8Array(gzipSync(lines)), "Alpaca, 2 rows → prompt/completion"],
  ];
  test.each(kinds)(
    "of the kind %s becomes rows, and its shape is in the answer",
    async (_kind, name, content, summary) => {
      const { status, body } = await sent(content, name);
      expect({ status, ...body }).toMatchObject({
        status: 201,
        format: "completion",
        num_rows: 2,
        detected: { summary },
      });
      expect(await exported(body.id)).toBe(stored);
      expect(await get(body.id)).toMatchObject({
        detected: { shape: "alpaca", fields: ["prompt", "completion"], rows: 2 },
      });
      expect((await sent(content, name)).status).toBe(200);
      await app.call("DELETE", `/v1/datasets/${body.id}`);
      expect(left()).toEqual([]);
    },
  );

  test("of Parquet is read, with a map for its columns", async () => {
    const content = new Uint8Array(rowsAsParquet(["a", "b"]));
    const { status, body } = await sent(content, "a.parquet", { map: '{"text":"prompt"}' });
    const summary = "Prompts in Parquet, 2 rows → prompt";
    expect({ status, ...body }).toMatchObject({ status: 201, num_rows: 2, detected: { file: "parquet", summary } });
    expect(await exported(body.id)).toBe('{"id":0,"prompt":"a"}\n{"id":1,"prompt":"b"}\n');
  });

  test("is another dataset when it is read in another way", async () => {
    const text = '{"prompt":"a","answer":"b"}\n';
    const plain = await sent(text, "x.jsonl");
    expect(plain.body).toMatchObject({ format: "prompt", detected: { summary: "Prompts, 1 row → prompt" } });
    const mapped = await sent(text, "x.jsonl", { map: "answer=completion" });
    expect(mapped).toMatchObject({ status: 201, body: { format: "completion" } });
    expect(await exported(mapped.body.id)).toBe('{"prompt":"a","completion":"b"}\n');
    expect((await sent(text, "x.jsonl", { map: '{"answer":"completion"}' })).body.id).toBe(mapped.body.id);
  });

  const both = '{"prompt":"a","instruction":"b","output":"c"}\n';
  const refusals: [string, () => ReturnType<typeof sent>, string, string][] = [
    ["two shapes", () => sent(both, "a.jsonl"), "shape", "Choose one with `shape`: prompt or alpaca"],
    [
      "unknown columns",
      () => sent("question,answer\na,b\n", "a.csv"),
      "file",
      "for example question=prompt,answer=completion",
    ],
    [
      "a typo in a role",
      () => sent('[{"messages":[{"role":"usr","content":"x"}]}]', "a.json"),
      "file",
      "Row 1: messages[0].role",
    ],
    ["a cell too many", () => sent("prompt,b\na,b\na,b,c\n", "a.csv"), "file", "a.csv: line 3 has 3 cells"],
    ["a cut Parquet file", () => sent("PAR1 and no more", "a.parquet"), "file", "cannot be read as Parquet"],
    [
      "a column that is not there",
      () => sent(both, "a.jsonl", { map: '{"promt":"x"}' }),
      "map",
      "Did you mean prompt?",
    ],
    ["a map that is no object", () => sent(both, "a.jsonl", { map: "a" }), "map", "must be pairs such as"],
    ["an unknown shape", () => sent(both, "a.jsonl", { shape: "vicuna" }), "shape", "shape:"],
    [
      "a map after the file",
      () => sent(both, "a.jsonl", { shape: "prompt" }, { map: '{"a":"b"}' }),
      "file",
      "before the file",
    ],
  ];
  test.each(refusals)("with %s is refused and leaves nothing behind", async (_what, send, param, message) => {
    const { status, body } = await send();
    expect({ status, param: body.error?.param }).toEqual({ status: 422, param });
    expect(body.error.message).toContain(message);
    expect(left()).toEqual([]);
  });
});

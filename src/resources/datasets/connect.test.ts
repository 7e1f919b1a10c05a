/** What a caller sees of sources that are odd, slow or hostile, with a fake hub at the other end. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { startFakeHf } from "../../../test/connectors/fake_hf.ts";
import { type TestApp, testApp, until } from "../../../test/harness.ts";

const hub = startFakeHf({
  "lab/odd": {
    files: { "train.jsonl": '{"question":"q","constructor":"c","__proto__":"p","n":12345678901234567890}\n' },
  },
  "lab/pair": { files: { "train.jsonl": '{"question":"q","prompt":"p","answer":"a"}\n' } },
});
let app: TestApp;
beforeEach(() => {
  app = testApp({ flags: { "network.allow": ["127.0.0.1", "localhost"], "hub.endpoint": hub.url } });
});
afterEach(() => app.close().then(app.remove));
afterAll(() => hub[Symbol.dispose]());

const sourceOf = (hub_dataset: string, column_mapping: Record<string, string>) => ({
  source_type: "hf",
  hub_dataset,
  hub_config: { column_mapping },
});

async function read(source: object) {
  const { body } = await app.call("POST", "/v1/datasets/connect", { name: "c", ...source });
  const begun = (await app.call("POST", `/v1/datasets/${body.id}/resolutions`, {})).body;
  const ended = await until("the reading to end", async () => {
    const { body: now } = await app.call("GET", `/v1/datasets/${body.id}/resolutions/${begun.id}`);
    return now.finished_at === null ? undefined : now;
  });
  if (ended.snapshot_id === null) return ended.error;
  return (await app.call("GET", `/v1/datasets/${body.id}/rows/export?snapshot=${ended.snapshot_id}`)).body as string;
}

const validate = async (source: object) => (await app.call("POST", "/v1/datasets/connect/validate", source)).body;

describe("column_mapping", () => {
  test("renames the columns it names and no other, whatever they are called", async () => {
    const source = sourceOf("lab/odd", { question: "prompt" });
    expect((await validate(source)).columns).toEqual(["prompt", "constructor", "__proto__", "n"]);
    const row = await read(source);
    expect(row).toContain('"n":12345678901234567890');
    expect(Object.entries(JSON.parse(row))).toEqual(
      expect.arrayContaining([
        ["prompt", "q"],
        ["constructor", "c"],
        ["__proto__", "p"],
      ]),
    );
  });

  test("may exchange two columns", async () => {
    const source = sourceOf("lab/pair", { question: "prompt", prompt: "question" });
    expect((await validate(source)).columns).toEqual(["prompt", "question", "answer"]);
    expect(JSON.parse(await read(source))).toEqual({ prompt: "q", question: "p", answer: "a" });
  });

  test.each([
    ["a column that is there already", { question: "prompt" }],
    ["two columns at once", { question: "input", answer: "input", prompt: "p" }],
  ])("loses nothing: a name for %s is refused", async (_, mapping) => {
    const source = sourceOf("lab/pair", mapping);
    const told = /column_mapping leaves two columns named (prompt|input): give one another name/;
    expect(await validate(source)).toMatchObject({ valid: false, error: expect.stringMatching(told) });
    expect(await read(source)).toMatchObject({ code: "invalid_rows", message: expect.stringMatching(told) });
  });
});

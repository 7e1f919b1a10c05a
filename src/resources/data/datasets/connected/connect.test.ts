// tier: all (real databases and stores)
/** Odd, slow and hostile sources as a caller sees them, with a fake hub at the other end. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { startFakeHf } from "../../../../../test/connectors/fake_hf.ts";
import { startEndlessPostgres } from "../../../../../test/connectors/fake_postgres.ts";
import { type TestApp, testApp, until } from "../../../../../test/harness.ts";

const hub = startFakeHf({
  "lab/odd": {
    files: { "train.jsonl": '{"question":"q","constructor":"c","__proto__":"p","n":12345678901234567890}\n' },
  },
  "lab/typo": {
    files: { "train.jsonl": '{"messages":[{"role":"user","content":"x"},{"role":"assistnt","content":"y"}]}\n' },
  },
  "lab/pair": { files: { "train.jsonl": '{"question":"q","prompt":"p","answer":"a"}\n' } },
});
/** Takes every connection and says nothing. */
const fakeMute = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
/** Lists on and on, and finds nothing. */
const fakeEndless = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: ({ method }) =>
    method === "HEAD"
      ? new Response(null, { status: 404 })
      : new Response(
          `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>${crypto.randomUUID()}</NextContinuationToken></ListBucketResult>`,
        ),
});
let app: TestApp;
const flags = { "network.allow": ["127.0.0.1", "localhost"], "hub.endpoint": hub.url };
beforeEach(() => {
  app = testApp({ flags });
});
afterEach(() => app.close().then(app.remove));
afterAll(async () => {
  hub[Symbol.dispose]();
  fakeMute.stop(true);
  await fakeEndless.stop(true);
});

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

test("what is no address of a database is answered with one that is", async () => {
  const source = { source_type: "postgres", db_connection: "host=db.lab password=hunter22", db_query: "SELECT 1" };
  const { error } = await validate(source);
  expect(error).toContain("such as postgres://host:5432/database");
  expect(error).not.toContain("redacted");
});

test("P9 validate: only a source whose first rows a job would take is valid", async () => {
  const lacking = await validate(sourceOf("lab/odd", {}));
  expect(lacking).toMatchObject({ valid: false, num_rows: 1, num_rows_exact: false });
  expect(lacking.error).toContain("prompt is missing");
  expect(lacking.columns).toContain("question");
  const taken = await validate(sourceOf("lab/odd", { question: "prompt" }));
  expect(taken).toMatchObject({ valid: true, num_rows: 1, num_rows_exact: true, error: null });
});

test("F1 role typos: a connected source with an unknown role is not valid, and its resolution fails", async () => {
  const source = sourceOf("lab/typo", {});
  const said = expect.stringContaining('Row 1: messages[1].role is "assistnt"');
  expect(await validate(source)).toMatchObject({ valid: false, error: said });
  expect(await read(source)).toMatchObject({ code: "invalid_rows", message: said });
});

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
    const told = /column_mapping produces two columns named (prompt|input)/;
    expect(await validate(source)).toMatchObject({ valid: false, error: expect.stringMatching(told) });
    expect(await read(source)).toMatchObject({ code: "invalid_rows", message: expect.stringMatching(told) });
  });
});

describe("a source that keeps us waiting", () => {
  test("leaves room for others: readings do not hold up who only looks, and a waiting one is cancelled at once", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 6; i++) {
      const name = `c${i}`;
      ids.push((await app.call("POST", "/v1/datasets/connect", { name, ...sourceOf("lab/pair", {}) })).body.id);
    }
    await app.close();
    const mute = { "hub.endpoint": `http://127.0.0.1:${fakeMute.port}`, "connectors.connect_timeout_ms": 600_000 };
    app = testApp({ dir: app.dir, flags: { ...flags, ...mute } });
    const begun = await Promise.all(
      ids.map(async (id) => (await app.call("POST", `/v1/datasets/${id}/resolutions`, {})).body),
    );
    const reading = () => app.ctx.supervisor.live().map(({ pid }) => pid);
    await until("four to be read", () => reading().length === 4);
    const four = reading();
    expect(await validate({ source_type: "s3", source_uri: "s3://Bucket!/x" })).toMatchObject({ valid: false });
    const last = begun.at(-1);
    const path = `/v1/datasets/${ids.at(-1)}/resolutions/${last.id}/cancel`;
    expect((await app.call("POST", path)).body).toMatchObject({ status: "cancelled" });
    expect(reading()).toEqual(expect.arrayContaining(four)); // all of it happened while they wait
  });

  test("is given up in the end, however much it says", async () => {
    await app.close();
    app = testApp({ dir: app.dir, flags: { ...flags, "connectors.validate_timeout_ms": 1_000 } });
    const source_uri = `s3://bucket/rows/?endpoint=http://127.0.0.1:${fakeEndless.port}`;
    const error = expect.stringContaining("within 2000 ms, which is twice connectors.validate_timeout_ms");
    expect(await validate({ source_type: "s3", source_uri })).toMatchObject({ valid: false, error });
    const connected = await app.call("POST", "/v1/datasets/connect", { name: "c", source_type: "s3", source_uri });
    expect(connected).toMatchObject({ status: 400, body: { error: { code: "source_unusable", message: error } } });
  });
});

test("a source whose answer never ends does not fill the memory", async () => {
  using server = await startEndlessPostgres();
  let most = 0;
  const watch = setInterval(() => {
    for (const { pid } of app.ctx.supervisor.live()) most = Math.max(most, residentBytes(pid));
  }, 5);
  const source = {
    source_type: "postgres",
    db_connection: `postgres://u@127.0.0.1:${server.port}/d?sslmode=disable`,
    db_query: "SELECT 1 AS a",
  };
  const answer = await validate(source);
  clearInterval(watch);
  expect(answer).toMatchObject({ valid: false, error: expect.stringContaining("bytes of memory") });
  expect(most).toBeGreaterThan(2 ** 30);
  expect(most).toBeLessThan(4 * 2 ** 30);
}, 120_000);

function residentBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0; // it has ended
  }
}

/**
 * All that others send is read through a form of `src/lib/json/outside.ts`. A type cannot say that, so the sources are read:
 * each place that parses bytes is in a form, or in the table below with the author of the bytes.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { FORMS, opaque, outside, readOutside, SERVING_BYTES, table } from "../../src/lib/json/outside.ts";
import { MIB } from "../../src/lib/units.ts";
import { ROOT, read, sources } from "./imports.ts";
import { unboundedIn } from "./outside_limits.ts";

/** Rings whose code runs in other processes than the server, or in the browser. */
const ELSEWHERE: Record<string, string> = {
  "src/cli/": "a command reads its own files, and the answers of the server that its user named",
  "src/dashboard/": "the browser reads the answers of its own server",
  "src/workers/": "a confined process with limits of memory and time reads files and sources of its user",
};

const OWN_ROWS = "rows of this server";
const OWN_FILES = "files that this server wrote";
const BODY = "a request's body, limited by src/http/body";
const WORKER = "a worker of this server, with the limits of its protocol";
const ANSWER = "an answer of a replica; deployments/remote/limit.ts limits those of nodes";
const CHILD = "a child process of this program, which prints one line";
const SEALED = "this server sealed it";

/** File → the number of places, and the author of the bytes. A new place in a listed file fails too. */
const PARSED: Record<string, [count: number, author: string]> = {
  "src/http/body/json.ts": [3, BODY],
  "src/http/body/read_bytes.ts": [1, BODY],
  "src/http/idempotency.ts": [1, SEALED],
  "src/lib/audit_chain.ts": [1, OWN_ROWS],
  "src/lib/chat/constraints.ts": [1, BODY],
  "src/lib/chat/tools.ts": [1, "the answer of a worker, in the worker"],
  "src/lib/detection/adaptation.ts": [1, "limits of its own, by bytes and values"],
  "src/lib/json/list.ts": [2, BODY],
  "src/lib/json/outside.ts": [1, "the form"],
  "src/lib/pricing.ts": [1, "a file of the operator"],
  "src/lib/rewards/acts.ts": [1, "texts of a trainer's message, which has a limit; objects alone"],
  "src/lib/rewards/frames.ts": [1, "a reward process, with frames of limited length"],
  "src/lib/rows/cells.ts": [1, OWN_ROWS],
  "src/lib/rows/columns.ts": [1, "a line of an upload, limited by the importer"],
  "src/lib/rows/convert.ts": [1, OWN_ROWS],
  "src/lib/rows/json.ts": [3, OWN_ROWS],
  "src/lib/schema.ts": [1, BODY],
  "src/lib/text/yaml.ts": [1, "limits of its own, by values and levels"],
  "src/platform/backup/create.ts": [1, OWN_FILES],
  "src/platform/backup/schedule.ts": [5, CHILD],
  "src/platform/config/config.ts": [1, "a file of the operator"],
  "src/platform/config/toml.ts": [1, "a file of the operator"],
  "src/platform/db/data_lock.ts": [1, OWN_FILES],
  "src/platform/files.ts": [1, OWN_FILES],
  "src/platform/providers/leases.ts": [1, OWN_FILES],
  "src/platform/machine/hardware.ts": [1, "nvidia-smi of this machine"],
  "src/platform/network/answer_body.ts": [1, "the reader of answers, which has a limit"],
  "src/platform/storage/s3/content.ts": [1, "stored content of at most HASHED_FIRST_BYTES, with its hash"],
  "src/platform/tls/renew_acme.ts": [3, CHILD],
  "src/resources/quality/annotation_queues/agreement.ts": [1, OWN_ROWS],
  "src/resources/quality/annotation_queues/dataset_items.ts": [1, OWN_ROWS],
  "src/resources/other_apis/batches/execute.ts": [1, ANSWER],
  "src/resources/other_apis/batches/lines.ts": [1, "a line of an uploaded file, limited by its reader"],
  "src/resources/other_apis/completions/schema.ts": [2, OWN_ROWS],
  "src/resources/other_apis/conversations/context.ts": [1, OWN_ROWS],
  "src/resources/other_apis/conversations/schema.ts": [1, OWN_ROWS],
  "src/resources/other_apis/evals/present.ts": [1, OWN_ROWS],
  "src/resources/other_apis/messages/batches.ts": [1, OWN_FILES],
  "src/resources/other_apis/messages/files.ts": [1, "an uploaded file, limited like a body"],
  "src/resources/other_apis/moderations/routes.ts": [1, ANSWER],
  "src/resources/other_apis/ollama/context.ts": [1, ANSWER],
  "src/resources/other_apis/vector_stores/index_files.ts": [1, "an uploaded file of limited length"],
  "src/resources/watching/traces/otlp/langfuse.ts": [1, BODY],
  "src/resources/other_apis/evals/rows.ts": [1, OWN_ROWS],
  "src/resources/other_apis/fine_tuning/datasets.ts": [1, "a line of an uploaded file, limited by its reader"],
  "src/resources/other_apis/google/routes.ts": [2, ANSWER],
  "src/resources/other_apis/google/translate.ts": [1, ANSWER],
  "src/resources/other_apis/hugging_face.ts": [1, ANSWER],
  "src/resources/other_apis/llama/routes.ts": [2, ANSWER],
  "src/resources/other_apis/messages/routes.ts": [1, ANSWER],
  "src/resources/other_apis/messages/translate.ts": [1, ANSWER],
  "src/resources/other_apis/ollama/routes.ts": [1, ANSWER],
  "src/resources/other_apis/ollama/stream.ts": [1, ANSWER],
  "src/resources/other_apis/rerank.ts": [1, ANSWER],
  "src/resources/other_apis/responses/replay.ts": [1, OWN_ROWS],
  "src/resources/other_apis/responses/routes.ts": [2, ANSWER],
  "src/resources/other_apis/responses/service.ts": [1, OWN_ROWS],
  "src/resources/other_apis/translated.ts": [2, ANSWER],
  "src/resources/data/datasets/stream/batch.ts": [1, BODY],
  "src/resources/data/datasets/stream/csv.ts": [1, OWN_ROWS],
  "src/resources/data/datasets/stream/resolved.ts": [2, OWN_ROWS],
  "src/resources/data/datasets/stream/statistics.ts": [1, OWN_ROWS],
  "src/resources/data/datasets/stream/upload.ts": [2, "the fields of a form, and rows of a dry run that were checked"],
  "src/resources/serving/agents/tools/run.ts": [1, ANSWER],
  "src/resources/serving/agents/tools/stream.ts": [1, ANSWER],
  "src/resources/serving/agents/tools/toolbox.ts": [
    1,
    "arguments of a model's call, limited by their length; objects alone",
  ],
  "src/resources/serving/deployments/chat/captured_output.ts": [2, ANSWER],
  "src/resources/serving/deployments/chat/error_message.ts": [1, ANSWER],
  "src/resources/serving/deployments/chat/send.ts": [1, ANSWER],
  "src/resources/serving/rollouts/policy.ts": [1, ANSWER],
  "src/resources/serving/rollouts/turns.ts": [4, OWN_ROWS],
  "src/resources/detection/adaptation.ts": [1, OWN_FILES],
  "src/resources/detection/answer.ts": [1, WORKER],
  "src/resources/detection/worker.ts": [1, WORKER],
  "src/resources/quality/evaluators/kinds/judge_prompt.ts": [2, "the text of a judge, after CHAT_ANSWER, and own rows"],
  "src/resources/quality/experiments/running/rows.ts": [1, OWN_ROWS],
  "src/resources/access/people/oidc/under_way.ts": [1, SEALED],
  "src/resources/machines/clouds/key.ts": [1, OWN_FILES],
  "src/resources/machines/sessions/service.ts": [1, SEALED],
  "src/resources/machines/sessions/workspace/write_back.ts": [1, OWN_FILES],
  "src/resources/server/system/checks.ts": [2, CHILD],
  "src/resources/server/system/clock.ts": [1, OWN_ROWS],
  "src/resources/watching/traces/conversations/replay.ts": [1, ANSWER],
  "src/resources/watching/traces/otlp/content.ts": [1, BODY],
  "src/resources/training/training_jobs/admission/rows.ts": [1, OWN_ROWS],
  "src/resources/training/training_jobs/custom/resources.ts": [1, "variables that this server sealed"],
  "src/sandbox/jail/command_output.ts": [1, "a line of a custom job, limited by its reader"],
  "src/resources/training/training_jobs/logs/file.ts": [1, OWN_FILES],
  "src/resources/training/training_jobs/logs/reading.ts": [1, OWN_FILES],
  "src/resources/training/training_jobs/running/scoring.ts": [1, OWN_ROWS],
  "src/resources/training/training_jobs/state/checkpoint_files.ts": [
    2,
    "files of a checkpoint, read through src/sandbox/files",
  ],
  "src/resources/watching/webhooks/sealing.ts": [1, SEALED],
};

/** Calls that turn bytes into values, and calls that read a whole answer or output without a limit. */
const PARSERS = [
  /\bJSON\.parse\b/,
  /\.json\(\)/,
  /\b(YAML|TOML|JSONL)\.parse/,
  /\bXMLParser\b/,
  /\bnew Response\([^)]*\)\.(text|bytes|arrayBuffer|blob)\(\)/,
  /\b(response|answer|got|request|res)\.(text|bytes|arrayBuffer|blob)\(\)/,
];
const parser = new RegExp(PARSERS.map(({ source }) => source).join("|"), "g");
const withoutComments = (text: string) =>
  text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|[^:])\/\/[^\n]*/g, "$1");
const parsersIn = (text: string) => withoutComments(text).match(parser)?.length ?? 0;
const isServer = (file: string) => !Object.keys(ELSEWHERE).some((folder) => file.startsWith(folder));

test("the server parses nothing outside the forms that is not in the table", () => {
  const found = sources.filter(isServer).flatMap((file) => {
    const count = parsersIn(read(file));
    return count === 0 ? [] : [`${file}: ${count}`];
  });
  expect(found.sort()).toEqual(
    Object.entries(PARSED)
      .map(([file, [count]]) => `${file}: ${count}`)
      .sort(),
  );
  expect(parsersIn("const a = JSON.parse(b);\n// JSON.parse\nconst c = await response.text();")).toBe(2);
});

/** Every module that declares a form has declared it after this. */
const declaring = sources.filter((file) => /\boutside\(\n?\s*["`]/.test(read(file)));
for (const file of declaring) await import(join(ROOT, file));

describe("every form", () => {
  test("is found", () => {
    expect(declaring.length).toBeGreaterThan(10);
    expect(FORMS.map(({ source }) => source)).toContain("the answer of the node about its hardware");
  });

  test("has a schema in which every text, list and table has a limit", () => {
    const open = FORMS.flatMap(({ source, schema }) => unboundedIn(schema).map((path) => `${source} ${path}`));
    expect(open).toEqual([]);
  });

  test("is small, or is parsed outside the serving thread", () => {
    const large = FORMS.filter(({ mostBytes, parsing }) => mostBytes > SERVING_BYTES && parsing === "here");
    expect(large).toEqual([]);
    expect(FORMS.filter(({ mostBytes }) => mostBytes > 512 * MIB)).toEqual([]);
  });

  test("of a thread is in the table of the thread, and the server reads it with readAside alone", () => {
    const declared = declaring.flatMap((file) => [...read(file).matchAll(/const (\w+) = outside\(/g)]);
    const names = declared.map(([, name = ""]) => name);
    const inThread = names.filter((name) => new RegExp(`\\b${name}\\b`).test(read("src/outside_thread.ts")));
    expect(inThread).toHaveLength(FORMS.filter(({ parsing }) => parsing === "thread").length);
    const direct = sources.filter((file) => inThread.some((name) => read(file).includes(`readOutside(${name}`)));
    expect(direct).toEqual([]);
  });
});

test("a schema without a limit is found", () => {
  const cases: [z.ZodType, number][] = [
    [z.object({ a: z.string() }), 1],
    [z.object({ a: z.string().max(3), b: z.array(z.string().max(1)) }), 1],
    [z.strictObject({ a: z.string().regex(/^[0-9a-f]{64}$/) }), 0],
    [z.strictObject({ a: z.string().regex(/^[0-9a-f]+$/) }), 1],
    [z.looseObject({}), 1],
    [z.record(z.string().max(3), z.int()), 1],
    [table(z.int(), { most: 3 }), 0],
    [table(z.string(), { most: 3 }), 1],
    [z.union([z.null(), z.lazy(() => z.array(z.unknown()).max(3))]), 1],
    [z.array(opaque("this test")).max(3).optional(), 0],
    [z.iso.datetime(), 1],
  ];
  for (const [schema, count] of cases) expect(unboundedIn(schema)).toHaveLength(count);
});

test("an error names the sender and the field, and a table is counted before its values are checked", () => {
  const form = outside("the test", z.strictObject({ a: table(z.string().max(2), { most: 3 }) }), { mostBytes: 1_000 });
  FORMS.pop();
  expect(() => readOutside(form, '{"a":{"k":"long"}}')).toThrow("the test cannot be used: a.k: ");
  expect(() => readOutside(form, '{"a":{"1":1,"2":2,"3":3,"4":4}}')).toThrow("a: has more than 3 entries");
  expect(() => readOutside(form, '{"a":')).toThrow("the test is not JSON");
  expect(() => readOutside(form, " ".repeat(1_001))).toThrow("the test has more than 1000 bytes");
  expect(() => readOutside(form, { body: new Uint8Array(3), truncated: true })).toThrow("more than 1000 bytes");
});

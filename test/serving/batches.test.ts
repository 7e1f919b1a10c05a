// tier: all (serves models)
/** The `openai` client with files and batches, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI, { toFile } from "openai";
import { until } from "../harness.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
const client = () => new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
beforeAll(async () => {
  server = await startServing({ models: { random: { arch: "llama", type: "F32", context: 256 } } });
  await server.deploy({ model: "random", name: "random", parallel: 4, context_length: 256 });
}, 120_000);
afterAll(() => server?.stop());

const line = (custom_id: string, max_tokens: unknown) =>
  JSON.stringify({
    custom_id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "random", messages: [{ role: "user", content: custom_id }], max_tokens, temperature: 0 },
  });

test("openai: a batch survives a kill, and has each answer once", async () => {
  const before = client();
  const lines = [...Array.from({ length: 40 }, (_, i) => line(`request-${i}`, 8)), line("bad", "many")];
  const file = await before.files.create({
    file: await toFile(Buffer.from(lines.join("\n")), "input.jsonl"),
    purpose: "batch",
  });
  const endpoint = "/v1/chat/completions";
  const created = await before.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" });
  await until(
    "some answers",
    async () => ((await before.batches.retrieve(created.id)).request_counts?.completed ?? 0) > 3,
  );
  await server.kill();
  await server.restart();
  const openai = client();
  const ended = await until(
    "the end of the batch",
    async () => {
      const now = await openai.batches.retrieve(created.id);
      return now.status === "completed" ? now : undefined;
    },
    120_000,
  );
  expect(ended.request_counts).toEqual({ total: 41, completed: 40, failed: 1 });
  const read = async (id: string | undefined) =>
    (await (await openai.files.content(id ?? "")).text())
      .trim()
      .split("\n")
      .map((each) => JSON.parse(each));
  const output = await read(ended.output_file_id);
  expect(new Set(output.map(({ custom_id }) => custom_id)).size).toBe(40);
  expect(output.every(({ response }) => response.body.choices[0].finish_reason === "length")).toBe(true);
  expect(await read(ended.error_file_id)).toMatchObject([{ custom_id: "bad", response: { status_code: 400 } }]);
  const listed: string[] = [];
  for await (const each of openai.files.list()) listed.push(each.purpose);
  expect(listed.sort()).toEqual(["batch", "batch_output", "batch_output"]);
}, 180_000);

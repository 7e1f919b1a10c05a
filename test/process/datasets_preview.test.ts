// tier: all (whole paths on the executable)
import { expect, test } from "bun:test";
import { datasetsCli } from "./datasets_cli_kit.ts";

const { server, verk, file } = datasetsCli();
const MODEL = ["--model", "verk-tiny"];
const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

test("a file is shown in the template with its trained part, counted, and not kept", async () => {
  const rows = [
    { prompt: "Hello there", completion: "Hi" },
    { prompt: "hello  THERE!", completion: "Hi" },
    { prompt: "Hello there", completion: "Hi" },
    { prompt: "x ".repeat(200), completion: "y" },
  ];
  const { code, out } = await verk(["preview", file("a.jsonl", rows), ...MODEL, "--limit", "1", "--max-length", "100"]);
  expect(code).toBe(0);
  expect(out).toMatch(/^row 1, text, \d+ tokens:\n(.*\n)*.*Hello there[\s\S]*«Hi/);
  expect(out).toContain("<|im_start|>user\n  Hello there<|im_end|>\n  <|im_start|>assistant\n  «Hi<|im_end|>»");
  expect(out).toContain("4 rows for sft with verk-tiny");
  expect(out).toContain("1 row over 100");
  expect(out).toContain("duplicates: 1 equal row, 2 equal prompts");
  expect((await verk(["list", "--json"])).json().data).toEqual([]);
});

test("F13 a dry run of sft and of dpo shows the first row with what is learned, and the rows that are cut or lost", async () => {
  const cli = (...args: string[]) =>
    server().verk(["jobs", "create", ...MODEL, ...args, "--output", "dry", "--dry-run"]);
  const rows = [
    { prompt: "Hello there", completion: "Hi" },
    { prompt: "x ".repeat(200), completion: "y" },
    { prompt: "Hello", completion: "z ".repeat(200) },
  ];
  const sft = await cli("--method", "sft", "--dataset", file("dry.jsonl", rows), "--set", "max_length=100");
  expect([sft.code, sft.err]).toEqual([0, expect.any(String)]);
  expect(sft.out).toMatch(/ {2}rows: 3, \d+ tokens; 1 cut at max_length 100, 1 not used\n/);
  expect(sft.out).toMatch(/ {2}first row, text, \d+ tokens; the text in «» is learned:\n/);
  expect(sft.out).toContain("    Hello there<|im_end|>\n    <|im_start|>assistant\n    «Hi<|im_end|>»");
  const pairs = [{ prompt: "Hello", chosen: "Hi", rejected: "Go away" }];
  const dpo = await cli("--method", "dpo", "--dataset", file("dry_pairs.jsonl", pairs));
  expect(dpo.out).toMatch(
    /first row, chosen[\s\S]*«Hi<\|im_end\|>»[\s\S]*first row, rejected[\s\S]*«Go away<\|im_end\|>»/,
  );
}, 120_000);

test("the API marks what each method trains", async () => {
  const rows = [{ prompt: "Hello", chosen: [assistant("Hi")], rejected: "Go away" }];
  const id = (await verk(["push", file("pairs.jsonl", rows)])).out.trim();
  const dpo = (await verk(["preview", id, ...MODEL, "--json"])).json();
  expect(dpo).toMatchObject({ object: "dataset.preview", dataset_id: id, method: "dpo" });
  const [row] = dpo.rows;
  expect(row.sequences.map(({ name }: { name: string }) => name)).toEqual(["chosen", "rejected"]);
  for (const { parts, tokens } of row.sequences) {
    expect(parts.map(({ trained }: { trained: boolean }) => trained)).toEqual([false, true]);
    expect(parts.reduce((sum: number, part: { tokens: number }) => sum + part.tokens, 0)).toBe(tokens);
  }
  const talk = (await verk(["push", file("talk.jsonl", [{ messages: [user("a"), assistant("b")] }])])).out.trim();
  const trained = async (more: object) => {
    const { body } = await server().call("POST", `/v1/datasets/${talk}/preview`, { model: "verk-tiny", ...more });
    return body.rows[0].sequences[0].parts.map((part: { trained: boolean }) => part.trained);
  };
  expect(await trained({})).not.toContain(false);
  expect(await trained({ assistant_only_loss: true })).toEqual([false, true]);
  expect(await trained({ method: "grpo" })).toEqual([false]);
});

test("a preview of nothing is refused with the reason", async () => {
  const { body } = await server().call("POST", "/v1/datasets", { name: "empty", format: "prompt" });
  const call = (more: object) =>
    server().call("POST", `/v1/datasets/${body.id}/preview`, { model: "verk-tiny", ...more });
  expect(await call({})).toMatchObject({ status: 400, body: { error: { code: "unsupported_state" } } });
  await server().call("POST", `/v1/datasets/${body.id}/rows`, { rows: [{ prompt: "a" }] });
  expect(await call({ model: "none" })).toMatchObject({ status: 404, body: { error: { param: "/model" } } });
  expect(await call({ method: "dpo" })).toMatchObject({ status: 422, body: { error: { param: "/method" } } });
  expect(await call({ snapshot: "@snap-9" })).toMatchObject({ status: 404 });
  expect((await verk(["preview", "empty"])).err).toContain("--model");
});

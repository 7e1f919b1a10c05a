// tier: all (trains models)
/** Rollouts of several turns, on a model that says what was recorded: a call of a tool, then an answer. */
import { afterAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Act, Environment } from "../../src/lib/rewards/contract.ts";
import { createEncoder } from "../../src/workers/trainer/data/encode.ts";
import { openTokenizer } from "../../src/workers/trainer/data/tokenizer.ts";
import { type ActResult, rollTurns, type TurnOptions } from "../../src/workers/trainer/loop/turns.ts";
import { openRoller } from "../../src/workers/trainer/rollouts/roller.ts";
import type { RolloutRequest } from "../../src/workers/trainer/rollouts/types.ts";
import { tempDir } from "../harness.ts";
import { recordedModel } from "../serving/recorded_model.ts";
import { planOf, runTraining } from "../trainer_kit.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const call = (text: string) => `<tool_call>\n${JSON.stringify({ name: "add", arguments: { a: text } })}\n</tool_call>`;
const FINAL = "There are seven apples in it.";
const MODEL = recordedModel(dir, [call("first"), `So. ${call("again")}`, FINAL], 2_048);
const CONTEXT = 700;
const ENVIRONMENTS: Environment[] = [
  {
    name: "Adder",
    tools: [
      { name: "add", description: "Adds.", parameters: { type: "object", properties: { a: { type: "string" } } } },
    ],
  },
];
const SAMPLING = { temperature: 1, topP: 1, topK: 0, minP: 0, maxTokens: 64 };
const ROW = JSON.stringify({ prompt: "How many?" });
const text = (said: string | null, more: Partial<ActResult> = {}): ActResult => {
  return { text: said, failed: false, error: null, ...more };
};

/** `answer`: what an act returns. Notes each request and each act. */
async function roll(answer: (act: Act, index: number) => ActResult, options: Partial<TurnOptions> = {}) {
  const tokenizer = openTokenizer(dir, MODEL, false);
  const roller = await openRoller({
    dataDir: dir,
    modelPath: MODEL,
    contextLength: CONTEXT,
    parallel: 2,
    threads: 1,
    gpus: [],
  });
  const encoder = createEncoder(tokenizer);
  const requests: RolloutRequest[][] = [];
  const acts: Act[] = [];
  let rollouts = 0;
  try {
    const tools = ENVIRONMENTS[0]!.tools.map((tool) => ({ type: "function" as const, function: tool }));
    const prompt = { tokens: encoder.prompt("How many?", tools), prompt: "How many?", row: ROW };
    const [finished] = await rollTurns([prompt], 2, [5], {
      roller: {
        ...roller,
        facts: roller.facts,
        roll(some, ...rest) {
          requests.push([...some]);
          return roller.roll(some, ...rest);
        },
      },
      encoder,
      environments: ENVIRONMENTS,
      act: async (some) => {
        acts.push(...some);
        return some.map(answer);
      },
      sampling: SAMPLING,
      maxTurns: 4,
      maxTokens: 400,
      newRollout: () => rollouts++,
      signal: new AbortController().signal,
      ...options,
    });
    const spell = (tokens: Int32Array) => tokenizer.spell(tokens);
    return { finished: finished!, requests, acts, spell };
  } finally {
    await roller.close();
    tokenizer.close();
  }
}

const byKind = (act: Act) => (act.act === "reset" ? text(null) : text("the sum is 7"));

test("each turn begins with the exact tokens of those before it, and the mask marks what the model wrote", async () => {
  const { finished, requests, acts, spell } = await roll(byKind);
  expect(acts.map(({ act, rollout }) => [act, rollout])).toEqual([
    ["reset", 0],
    ["reset", 1],
    ["call", 0],
    ["call", 1],
    ["call", 0],
    ["call", 1],
  ]);
  expect(acts[0]!.seed).toBe(acts[1]!.seed); // samples of a prompt begin alike
  expect(acts[2]!.seed).not.toBe(acts[3]!.seed);
  expect(requests.map((some) => some.map(({ samples }) => samples))).toEqual([[2], [1, 1], [1, 1]]);
  const [first] = finished;
  for (const turn of [0, 1, 2]) {
    const { prompt } = requests[turn]![0]!;
    expect([...first!.tokens.subarray(0, prompt.length)]).toEqual([...prompt]);
  }
  const part = (isWritten: number) =>
    spell(first!.tokens.subarray(first!.from).filter((_, i) => first!.written[i] === isWritten));
  const end = "<|im_end|>";
  expect(part(1)).toBe(`${call("first")}${end}So. ${call("again")}${end}${FINAL}${end}`);
  const result = "<|im_start|>user\n<tool_response>\nthe sum is 7\n</tool_response>";
  expect(part(0).split(result)).toHaveLength(3);
  expect(part(0)).not.toContain("add");
  first!.written.forEach((isWritten, i) => {
    if (isWritten) expect(first!.logps![i]).toBeLessThanOrEqual(0);
    else expect(first!.logps![i]).toBe(0);
  });
  expect(first).toMatchObject({ turns: 3, calls: 2, failedCalls: 0, truncated: false, error: null });
  const { messages } = first!;
  expect(messages.map(({ role }) => role)).toEqual(["assistant", "tool", "assistant", "tool", "assistant"]);
  expect(messages[2]).toMatchObject({ content: "So. ", tool_calls: [{ id: "call_2_1", function: { name: "add" } }] });
  expect(messages[3]).toMatchObject({ tool_call_id: "call_2_1", content: "the sum is 7" });
}, 60_000);

test("the last turn that is allowed still calls its tools; no answer follows", async () => {
  const { finished, acts } = await roll(byKind, { maxTurns: 1 });
  expect(acts.filter(({ act }) => act === "call")).toHaveLength(2);
  expect(finished.map(({ turns, calls, truncated }) => [turns, calls, truncated])).toEqual([
    [1, 1, false],
    [1, 1, false],
  ]);
  expect(finished[0]!.messages.at(-1)?.role).toBe("tool");
}, 60_000);

test("a rollout that is lost, too long, or whose tool says too much ends alone", async () => {
  const lost = await roll((act) =>
    act.act === "call" && act.rollout === 0 ? text(null, { error: "it hung" }) : byKind(act),
  );
  expect(lost.finished.map(({ error, turns }) => [error, turns])).toEqual([
    ["it hung", 1],
    [null, 3],
  ]);
  const long = await roll((act) => (act.act === "call" && act.rollout === 1 ? text("x ".repeat(900)) : byKind(act)));
  expect(long.finished.map(({ truncated, turns }) => [truncated, turns])).toEqual([
    [false, 3],
    [true, 1],
  ]);
  const cut = await roll(byKind, { maxTokens: 5 });
  expect(cut.finished.map(({ truncated, tokens, from }) => [truncated, tokens.length - from])).toEqual([
    [true, 5],
    [true, 5],
  ]);
  const observed = await roll((act) => (act.act === "reset" ? text(" Look here.") : byKind(act)));
  expect(observed.spell(observed.finished[0]!.tokens)).toContain("How many? Look here.<|im_end|>");
  const full = await roll((act) => (act.act === "reset" ? text("x ".repeat(900)) : byKind(act)));
  expect(full.finished.map(({ error }) => error)).toEqual(Array(2).fill(expect.stringContaining("leaves no room")));
}, 120_000);

test("the loss of a step is over what the model wrote; rewards get the messages and the rollout", async () => {
  const plan = {
    ...(await planOf({
      dir,
      model: MODEL,
      method: "grpo",
      rows: [{ prompt: "How many?" }],
      context: CONTEXT,
      given: {
        num_generations: 2,
        per_device_train_batch_size: 2,
        max_steps: 1,
        max_completion_length: 64,
        max_rollout_tokens: 400,
        max_turns: 4,
      },
    })),
    environments: ENVIRONMENTS,
  };
  const weights: Float32Array[] = [];
  const scored: unknown[] = [];
  const run = await runTraining({
    plan,
    dir,
    checkpoints: join(dir, "checkpoints"),
    act: async (acts) => acts.map(byKind),
    score: async (_, samples) => {
      scored.push(...samples);
      const results = samples.map((__, i) => ({ reward: i, sub_rewards: { it: i }, error: null }));
      return { results, latencies_ms: [1, 1], stdout: "" };
    },
    onOpened({ trainee }) {
      const { learn } = trainee;
      trainee.learn = (units, weigh, options) =>
        learn.call(
          trainee,
          units,
          (unit, scores) => {
            const weighed = weigh(unit, scores);
            weights.push(...weighed);
            return weighed;
          },
          options,
        );
    },
  });
  expect(run.error).toBeNull();
  expect(scored).toMatchObject([
    { rollout: 0, completion: [{ role: "assistant" }, { role: "tool" }, {}, {}, { content: FINAL }] },
    { rollout: 1 },
  ]);
  const [step] = run.steps;
  expect(step!.values).toMatchObject({ "turns/mean": 3, "tools/call_frequency": 2, "tools/failure_frequency": 0 });
  const { finished } = await roll(byKind);
  const mask = finished[0]!.written;
  expect(step!.values["completions/mean_length"]).toBe(mask.reduce((sum, each) => sum + each, 0));
  expect(weights).toHaveLength(2);
  for (const each of weights) {
    expect(each).toHaveLength(mask.length);
    each.forEach((weight, i) => {
      if (mask[i]) expect(weight).not.toBe(0);
      else expect(weight).toBe(0);
    });
  }
}, 120_000);

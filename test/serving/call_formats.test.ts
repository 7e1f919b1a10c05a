// tier: all (serves models)
/** Required calls of each format, drawn by the real sampler of the library, then read by the parser of the format. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { ChatCompletionRequest } from "../../src/lib/chat/chat_completion.ts";
import { plainTools } from "../../src/lib/chat/tools.ts";
import type { CallFormat } from "../../src/workers/serving/calls/format.ts";
import type { Engine } from "../../src/workers/serving/engine/types.ts";
import { planAnswer } from "../../src/workers/serving/tools.ts";
import { tempDir } from "../harness.ts";
import { makeModel } from "../models.ts";
import { FORMATS } from "./call_cases.ts";
import { closeEngines, RANDOM, say, testEngine, tokens } from "./engines.ts";

const PARAMETERS = {
  type: "object",
  properties: { unit: { enum: ["metre", "foot"] }, far: { type: "boolean" }, note: { enum: ["near", "there"] } },
  required: ["unit", "far"],
};
const TOOLS = [{ type: "function", function: { name: "measure", parameters: PARAMETERS } }];

let engine: Engine;
beforeAll(async () => {
  engine = await testEngine(makeModel(tempDir(), { arch: "llama", type: "F32" }), { contextLength: 512 });
});
afterAll(closeEngines);

test.each(Object.keys(FORMATS))("%s", async (name) => {
  const request = ChatCompletionRequest.parse({
    messages: [{ role: "user", content: "x" }],
    tools: TOOLS,
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const plain = { ...request, ...plainTools(request.tools, request.tool_choice) };
  const plan = planAnswer(plain, FORMATS[name] as CallFormat);
  const prompt = tokens(engine, "Measure it.");
  const drawn = await say(engine, {
    prompt,
    grammar: plan.grammar as string,
    sampling: { ...RANDOM, seed: 5 },
    samples: 3,
    maxTokens: 400,
  });
  for (const { text, finish } of drawn) {
    if (finish === "length") continue; // random thoughts find no end
    const parser = plan.newParser?.();
    const calls = [parser?.push(text), parser?.end()].flatMap((part) => part?.calls ?? []);
    expect([text, calls.length, calls[0]?.name]).toEqual([text, 1, "measure"]);
    const { unit, far, note = "near" } = JSON.parse(calls[0]?.arguments ?? "");
    expect([text, ["metre", "foot"].includes(unit), typeof far, ["near", "there"].includes(note)]).toEqual([
      ...[text, true, "boolean", true],
    ]);
  }
  if (name !== "harmony") expect(drawn.some(({ finish }) => finish === "stop")).toBe(true);
});

import { expect, test } from "bun:test";
import { bodyOf, EMPTY, faultsOf, fieldOf, formOf } from "./form.ts";

const AGENT = {
  object: "agent" as const,
  id: "agt_1",
  name: "helper",
  version: 2,
  description: null,
  deployment: "demo",
  system_prompt: "Be brief.",
  tools: [{ type: "function" }],
  max_turns: 4,
  metadata: {},
  created_at: "",
  sampling: { temperature: 0.5, max_completion_tokens: 64, stop: "END" },
};

test("a version becomes a form and the form the next version, without a loss", () => {
  const { name, deployment, system_prompt, tools, sampling, max_turns } = AGENT;
  expect(bodyOf(formOf(AGENT))).toEqual({ name, deployment, system_prompt, tools, sampling, max_turns });
  expect(bodyOf({ ...EMPTY, name: " a ", deployment: "d" })).toEqual({
    name: "a",
    deployment: "d",
    tools: [],
    sampling: {},
  });
});

test("mistakes are shown at their fields, also those of the server", () => {
  expect(Object.keys(faultsOf({ ...EMPTY, tools: "{}", more: "[", seed: "x" }))).toEqual(["tools", "more", "seed"]);
  expect(faultsOf(formOf(AGENT))).toEqual({});
  expect(["/sampling/temperature", "/sampling/stop", "/system_prompt", "/name", null].map(fieldOf)).toEqual([
    ...(["temperature", "more", "prompt", "name", undefined] as const),
  ]);
});

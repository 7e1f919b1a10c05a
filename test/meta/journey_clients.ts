import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const MESSAGES = [{ role: "user", content: "hi" }];

/** The formats of other programs. `serving` makes the deployment d serve. */
export const clientSteps = (own: (app: TestApp) => Promise<Record<string, string>>): Step[] => [
  { operation: "POST /completion", own, json: { model: "d", prompt: "hi" }, plain: true },
  { operation: "POST /infill", own, json: { model: "d", input_prefix: "a", input_suffix: "b" }, plain: true },
  { operation: "POST /tokenize", own, json: { model: "d", content: "hi" }, plain: true },
  { operation: "POST /detokenize", own, json: { model: "d", tokens: [1] }, plain: true },
  { operation: "POST /apply-template", own, json: { model: "d", messages: MESSAGES }, plain: true },
  { operation: "POST /v1/chat/completions/input_tokens", own, json: { model: "d", messages: MESSAGES } },
  { operation: "GET /props", own: async (app) => ({ ...(await own(app)), "?": "?model=d" }), plain: true },
  { operation: "GET /slots", own: async (app) => ({ ...(await own(app)), "?": "?model=d" }), plain: true },
  { operation: "GET /lora-adapters", plain: true },
  {
    operation: "POST /v1/messages",
    own,
    json: { model: "d", max_tokens: 8, messages: [{ role: "user", content: "hi" }] },
    plain: true,
  },
  { operation: "POST /v1/messages/count_tokens", own, json: { model: "d", messages: MESSAGES }, plain: true },
  { operation: "POST /v1/rerank", own, json: { model: "d", query: "q", documents: ["a"] } },
];

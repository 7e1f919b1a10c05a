/** Lists of other servers, the calls of Ollama, gaps, and requests that are left. */
import { until } from "../../harness.ts";
import { begun, type Case, CHAT, content, get, type Json, json, ok, said, same, TEXT, USER } from "./kit.ts";

const isTiny = (models: Json[], field: string) => models.some((each) => each[field] === "tiny");

export const OTHERS: Case[] = [
  [
    "POST /api/chat",
    ok(
      "/api/chat",
      { model: "tiny", messages: USER, stream: false, options: { temperature: 0 } },
      ({ message, done }) => done && message.content === "12",
    ),
  ],
  [
    "POST /api/generate",
    ok(
      "/api/generate",
      { model: "tiny", prompt: "What is 7 + 5?", stream: false, options: { temperature: 0 } },
      (body) => body.response === "12",
    ),
  ],
  [
    "POST /api/embed",
    ok("/api/embed", { model: "tiny", input: ["a", "b"] }, ({ embeddings }) => embeddings.length === 2),
  ],
  ["POST /api/show", ok("/api/show", { model: "tiny" }, ({ capabilities }) => capabilities.includes("completion"))],
  ["GET /api/tags", get("/api/tags", ({ models }) => isTiny(models, "name"))],
  ["GET /api/ps", get("/api/ps", ({ models }) => isTiny(models, "name"))],
  ["GET /api/version", get("/api/version", ({ version }) => version.length > 0)],
  ["GET /api/v0/models", get("/api/v0/models", ({ data }) => isTiny(data, "id") && data[0].state === "loaded")],
  [
    "POST /v1/responses",
    ok(
      "/v1/responses",
      { model: "tiny", input: "What is 7 + 5?", temperature: 0 },
      ({ output }) => output[0].content[0].text === "12",
    ),
  ],
];

/** For a model that has tokens to fill a gap with. */
export const GAPS: Case[] = [
  [
    "POST /infill",
    ok(
      "/infill",
      { model: "gaps", input_prefix: "a", input_suffix: "b", n_predict: 4 },
      (body) => body.tokens_predicted === 4,
    ),
  ],
  ["suffix", ok(TEXT, { ...begun, model: "gaps", suffix: " end" }, (body) => said(body).length > 0)],
];

const times = async (count: number, next: (i: number) => Promise<string>): Promise<number> => {
  const all: string[] = [];
  for (let i = 0; i < count; i++) all.push(await next(i));
  return new Set(all).size;
};

export const EXACT: Case[] = [
  [
    "a list of one whole number",
    ok(CHAT, json({ type: "json_object", schema: { items: [{ type: "integer" }] } }), (body) =>
      /^\[\s*-?\d+/.test(content(body)),
    ),
  ],
  [
    "one seed four times, greedy",
    async (post) => (await times(4, () => same(post, TEXT, { ...begun, seed: 1 }, said))) === 1,
  ],
  [
    "one seed three times, at random",
    async (post) => (await times(3, () => same(post, TEXT, { ...begun, temperature: 1, seed: 7 }, said))) === 1,
  ],
  [
    "four seeds, at random",
    async (post) => (await times(4, (seed) => same(post, TEXT, { ...begun, temperature: 1, seed }, said))) > 1,
  ],
  [
    "the text ends before a stop string",
    async (post) => {
      const whole = await same(post, TEXT, begun, said);
      const stop = whole.slice(3, 5);
      const { body } = await post(TEXT, { ...begun, stop: [stop] });
      return said(body) === whole.slice(0, whole.indexOf(stop)) && body.choices[0].finish_reason === "stop";
    },
  ],
  [
    "a client that leaves frees its slot",
    async (post) => {
      const busy = async () => ((await post("GET /slots")).body as Json[]).filter((slot) => slot.is_processing).length;
      await post.leave(CHAT, { model: "tiny", messages: USER, stream: true, ignore_eos: true, max_tokens: 400 });
      await until("the slot to be free", async () => (await busy()) === 0);
      return true;
    },
  ],
];

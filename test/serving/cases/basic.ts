/** Paths, keys and the model list, and the deliberate differences. */
import { begun, type Case, CHAT, get, type Json, ok, type Post, question, refused, TEXT } from "./kit.ts";

export const BASIC: Case[] = [
  [
    "an id of the model list works as model",
    async (post) => {
      const { body } = await post("GET /v1/models");
      return (await post(CHAT, { ...question, model: body.data[0].id })).status === 200;
    },
  ],
  [
    "the model list has the name of the deployment",
    get("/v1/models", ({ data }) => data.some((each: Json) => each.id === "tiny")),
  ],
  ["GET /health", get("/health", ({ status }) => status === "ok")],
  ["GET /v1/health", get("/v1/health", ({ status }) => status === "ok")],
  ["GET /models", get("/models", ({ data }) => data.length > 0)],
  ["GET /props", get("/props", (body) => body.total_slots === 4 && body.default_generation_settings.n_ctx === 512)],
  ["GET /slots", get("/slots", (body) => body.length === 4)],
  ["GET /metrics", get("/metrics", (body) => body.includes("verk_"))],
  ["GET /lora-adapters", get("/lora-adapters", (body) => Array.isArray(body))],
  ["POST /chat/completions without /v1", ok("/chat/completions", question)],
  ["POST /completions without /v1", ok("/completions", begun)],
  [
    "POST /completion, the native route",
    ok("/completion", { prompt: "Once", n_predict: 4 }, (body) => body.tokens_predicted === 4 || body.stop),
  ],
  ["a request without model goes to the only deployment", ok(CHAT, { ...question, model: undefined })],
  [
    "a wrong key is 401",
    async (post) => {
      const { status, body } = await post(CHAT, question, { authorization: "Bearer vk_nobody" });
      return status === 401 && body.error.type === "authentication_error";
    },
  ],
  [
    "x-api-key is a key of llama.cpp",
    async (post) => {
      const body = { prompt: "Once", n_predict: 2 };
      return (await post("/completions", body, { authorization: "", "x-api-key": "KEY" })).status === 200;
    },
  ],
  [
    "a page at localhost may call",
    async (post) => {
      const { headers } = await post("OPTIONS /v1/models", undefined, {
        origin: "http://localhost:3000",
        "access-control-request-method": "GET",
      });
      return headers.get("access-control-allow-origin") === "http://localhost:3000";
    },
  ],
  ["GET /v1/models", get("/v1/models")],
];

const absent =
  (path: string, what: string, sent: object = {}) =>
  async (post: Post) => {
    const { status, body } = await post(path, sent);
    const { code, message } = body.error;
    return status === 404 && code === "model_not_found" && message.includes(what);
  };

/** Deliberate: what these clients expect, and why the answer is another. */
export const DELIBERATE: Case[] = [
  [
    "a model that does not exist is 404: another model must not answer in its name",
    async (post) => {
      const { status, body } = await post(CHAT, { ...question, model: "gpt-3.5-turbo" });
      return status === 404 && body.error.code === "model_not_found";
    },
  ],
  [
    "suffix needs a model that fills gaps: 400",
    refused(TEXT, { ...begun, suffix: "end" }, ({ param }) => param === "/suffix"),
  ],
  ["/infill needs such a model too: 400", refused("/infill", { input_prefix: "a", input_suffix: "b" })],
  [
    "/v1/moderations without a model: no moderation model is built in",
    absent("/v1/moderations", "moderates texts", { input: "a" }),
  ],
  [
    "/v1/audio/transcriptions: no model that hears can be served here",
    absent("/v1/audio/transcriptions", "hears audio"),
  ],
];

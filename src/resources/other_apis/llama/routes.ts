import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { type Completion, CompletionRequest } from "../../../lib/chat/completion.ts";
import {
  DetokenizedText,
  DetokenizeRequest,
  RenderedPrompt,
  TokenizedText,
  TokenizeRequest,
} from "../../../lib/chat/tokens.ts";
import { SSE_DONE, sseData } from "../../../lib/net/sse.ts";
import { VERSION } from "../../../lib/version.ts";
import { recordRefusals } from "../../serving/deployments/chat/refusals.ts";
import { listLoras } from "../../serving/deployments/served.ts";
import { type Caller, callModel, parsedAs } from "../call_model.ts";
import { type Translator, translated } from "../translated.ts";
import { Infill, LoraAdapters, NativeAnswer, NativeCompletion, Props, Slots } from "./schema.ts";
import { fromInfill, fromNative, toNative } from "./translate.ts";

const ModelQuery = z.object({ model: z.string().min(1).optional().describe("The name of the deployment") });

const translator: Translator<Completion, Completion> = {
  whole: toNative,
  chunk: (chunk) => sseData(JSON.stringify(toNative(chunk))),
  end: () => "",
  error: (message) => sseData(JSON.stringify({ error: { message } })) + SSE_DONE,
};

type Facts = {
  context_length: number;
  parallel: number;
  active: number;
  bos_token: string;
  eos_token: string;
  chat_template: string;
  vision?: boolean;
};

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");
  const factsOf = async (caller: Caller, model: string | undefined) => {
    const { row, response } = await callModel(ctx, caller, "/props", { model });
    return { name: row.name, response, facts: (response.ok ? await response.clone().json() : {}) as Facts };
  };
  const complete = async (caller: Caller, fields: z.input<typeof CompletionRequest>) =>
    translated(
      (await callModel(ctx, caller, "/completions", parsedAs(CompletionRequest, fields))).response,
      translator,
    );
  return new Elysia({ tags: ["Clients"] })
    .use(authed)
    .post("/completion", ({ body, ...caller }) => complete(caller, fromNative(body)), {
      ...takes(NativeCompletion, { kind: "tokens" }),
      detail: describe("Complete a text, as llama.cpp's server does", { 200: NativeAnswer }),
    })
    .post("/infill", ({ body, ...caller }) => complete(caller, fromInfill(body)), {
      ...takes(Infill, { kind: "chat" }),
      detail: describe(
        "Fill the gap between two texts, as llama.cpp's server does",
        { 200: NativeAnswer },
        { description: "Needs a model that has tokens for it." },
      ),
    })
    .post("/tokenize", async ({ body, ...caller }) => (await callModel(ctx, caller, "/tokenize", body)).response, {
      ...takes(TokenizeRequest, { kind: "chat" }),
      detail: describe("Split a text into tokens", { 200: TokenizedText }),
    })
    .post("/detokenize", async ({ body, ...caller }) => (await callModel(ctx, caller, "/detokenize", body)).response, {
      ...takes(DetokenizeRequest, { kind: "tokens" }),
      detail: describe("Join tokens to a text", { 200: DetokenizedText }),
    })
    .post(
      "/apply-template",
      async ({ body, ...caller }) => (await callModel(ctx, caller, "/apply-template", body)).response,
      {
        ...takes(ChatCompletionRequest, { kind: "chat" }),
        detail: describe("Render a chat request with the model's template", { 200: RenderedPrompt }),
      },
    )
    .post(
      "/v1/chat/completions/input_tokens",
      async ({ body, ...caller }) => {
        const { response } = await callModel(ctx, caller, "/apply-template", body);
        if (!response.ok) return response;
        const { input_tokens } = (await response.json()) as { input_tokens: number };
        return { object: "chat.completion.input_tokens", input_tokens };
      },
      {
        ...takes(ChatCompletionRequest, { kind: "chat" }),
        detail: describe("Count the tokens of a chat request", {
          200: z.object({ object: z.literal("chat.completion.input_tokens"), input_tokens: z.int() }),
        }),
      },
    )
    .get(
      "/props",
      async ({ query, ...caller }) => {
        const { name, response, facts } = await factsOf(caller, query.model);
        if (!response.ok) return response;
        return {
          default_generation_settings: { n_ctx: facts.context_length },
          total_slots: facts.parallel,
          model_path: name,
          model_alias: name,
          chat_template: facts.chat_template,
          bos_token: facts.bos_token,
          eos_token: facts.eos_token,
          build_info: `verk ${VERSION}`,
          modalities: { vision: facts.vision === true, audio: false as const },
        };
      },
      {
        ...asks(ModelQuery),
        detail: describe("Get facts of a deployment, as llama.cpp's server does", { 200: Props }),
      },
    )
    .get(
      "/slots",
      async ({ query, ...caller }) => {
        const { response, facts } = await factsOf(caller, query.model);
        if (!response.ok) return response;
        const { context_length: n_ctx, parallel, active } = facts;
        return Array.from({ length: parallel }, (_, id) => ({ id, n_ctx, is_processing: id < active }));
      },
      { ...asks(ModelQuery), detail: describe("List the slots of a deployment", { 200: Slots }) },
    )
    .get("/lora-adapters", ({ query, principal }) => listLoras(ctx, principal.workspaceId, query.model), {
      ...asks(ModelQuery),
      detail: describe(
        "List the adapters that a request can choose, as llama.cpp's server does",
        { 200: LoraAdapters },
        {
          description:
            "`lora` of a request takes the number, the name or the id of an adapter. `scale` is what a request without `lora` uses: 1 for the adapter of the deployment, else 0.",
        },
      ),
    });
};

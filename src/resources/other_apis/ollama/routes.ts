import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { describe } from "../../../http/openapi.ts";
import { CompletionRequest } from "../../../lib/chat/completion.ts";
import { type EmbeddingList, EmbeddingRequest } from "../../../lib/chat/embedding.ts";
import { AppError } from "../../../lib/errors.ts";
import { isoTime } from "../../../lib/time.ts";
import { VERSION } from "../../../lib/version.ts";
import { resolveModel } from "../../serving/agents/apply.ts";
import { findAgentModel, listUsable } from "../../serving/agents/listed.ts";
import { recordRefusals } from "../../serving/deployments/chat/refusals.ts";
import { findListed, mustFind } from "../../serving/deployments/served.ts";
import { type Caller, callModel, chat, chatBody, parsedAs } from "../call_model.ts";
import { nameIgnored } from "../ignored.ts";
import { translated } from "../translated.ts";
import { ChatAnswer, Embedding, Embeddings, Loaded, Shown, Tags, TextAnswer, Version } from "./answers.ts";
import { ollamaArea } from "./area.ts";
import { promptTokensOf, textTokensOf } from "./context.ts";
import { isLoaded, toLoaded, toShown, toTag } from "./listed.ts";
import { nameFor } from "./manage.ts";
import { jsonLine, NDJSON_HEADERS } from "./ndjson.ts";
import {
  asksToUnload,
  modelOf,
  OllamaChat,
  OllamaEmbed,
  OllamaEmbeddings,
  OllamaGenerate,
  OllamaShow,
  OPTIONS,
} from "./schema.ts";
import { type ContextOf, createChatTranslator, createTextTranslator, emptyAnswer } from "./stream.ts";
import { fromChat, fromGenerate, fromRaw } from "./translate.ts";

type EmptyRequest = Pick<OllamaChat, "model" | "stream" | "keep_alive">;

const MAX_LISTED = 1_000;
const NS = 1_000_000; // nanoseconds of a millisecond

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = ollamaArea(ctx);
  const now = () => isoTime(ctx.clock.now());
  const named = <B extends { model: string }>({ principal }: Caller, body: B): B => ({
    ...body,
    model: nameFor(ctx, principal.workspaceId, body.model),
  });
  const usable = async ({ principal }: Caller) =>
    (await listUsable(ctx, principal.workspaceId, { limit: MAX_LISTED, after: undefined })).data;

  /** A request without a prompt waits until the model is loaded. */
  async function load(caller: Caller, kind: "chat" | "generate", body: EmptyRequest) {
    const { deployment } = resolveModel(ctx, caller.principal.workspaceId, body.model);
    const reason = asksToUnload(body) ? "unload" : "load";
    if (reason === "load") {
      const { response } = await callModel(ctx, caller, "/props", { model: deployment.name });
      if (!response.ok) return response;
    }
    const answer = emptyAnswer(kind, { model: body.model, now: now(), reason });
    return body.stream ? new Response(jsonLine(answer), { headers: NDJSON_HEADERS }) : answer;
  }

  const complete = async (caller: Caller, body: OllamaGenerate, tokens?: number[]) => {
    const request = parsedAs(CompletionRequest, fromRaw(body, tokens));
    const { response } = await callModel(ctx, caller, "/completions", request);
    const contextOf = tokens && contextAfter(caller, body.model, tokens);
    return translated(response, createTextTranslator(now, contextOf));
  };
  const contextAfter =
    (caller: Caller, model: string, before: readonly number[]): ContextOf =>
    async (text) => [...before, ...(await textTokensOf(ctx, caller, model, text))];

  async function generate(caller: Caller, body: OllamaGenerate) {
    if (body.raw || body.suffix) return complete(caller, body);
    const request = chatBody(ctx, caller, fromGenerate(body));
    const { deployment, agentId } = resolveModel(ctx, caller.principal.workspaceId, request.model);
    const model = agentId ? deployment.name : body.model; // a deployment may name its adapter
    const readPrompt = () => promptTokensOf(ctx, caller, { ...request, model });
    if (body.context?.length) return complete(caller, { ...body, model }, [...body.context, ...(await readPrompt())]);
    const contextOf: ContextOf = async (text) => contextAfter(caller, model, await readPrompt())(text);
    const response = await chat(ctx, caller, request);
    return translated(response, createChatTranslator("generate", now, body.images?.length ? undefined : contextOf));
  }

  async function embed(
    caller: Caller,
    fields: { model: string; input: string | string[]; dimensions?: number | null | undefined },
  ) {
    const startedAt = performance.now();
    const { response } = await callModel(ctx, caller, "/embeddings", parsedAs(EmbeddingRequest, fields));
    if (!response.ok) return { response };
    const { model, data, usage } = (await response.json()) as EmbeddingList;
    const embeddings = data.map(({ embedding }) => embedding as number[]);
    const total_duration = Math.round((performance.now() - startedAt) * NS);
    return { answer: { model, embeddings, total_duration, load_duration: 0, prompt_eval_count: usage.prompt_tokens } };
  }

  return new Elysia({ prefix: "/api", tags: ["Clients"] })
    .use(authed)
    .post(
      "/chat",
      async ({ body: sent, ...caller }) => {
        const body = named(caller, sent);
        nameIgnored(caller.request, "options", body.options, OPTIONS);
        if (body.messages.length === 0) return load(caller, "chat", body);
        const response = await chat(ctx, caller, chatBody(ctx, caller, fromChat(body)));
        return translated(response, createChatTranslator("chat", now));
      },
      {
        ...takes(OllamaChat, { kind: "chat" }),
        detail: describe(
          "Chat, as Ollama does",
          { 200: ChatAnswer },
          { description: "The answer is application/x-ndjson, unless stream is false." },
        ),
      },
    )
    .post(
      "/generate",
      async ({ body: sent, ...caller }) => {
        const body = named(caller, sent);
        nameIgnored(caller.request, "options", body.options, OPTIONS);
        if (body.prompt === "" && !body.suffix) return load(caller, "generate", body);
        return generate(caller, body);
      },
      {
        ...takes(OllamaGenerate, { kind: "tokens" }), // a context has one value for each token
        detail: describe(
          "Complete a text, as Ollama does",
          { 200: TextAnswer },
          { description: "The answer is application/x-ndjson, unless stream is false." },
        ),
      },
    )
    .post(
      "/embed",
      async ({ body, ...caller }) => {
        const { response, answer } = await embed(caller, named(caller, body));
        return response ?? answer;
      },
      { ...takes(OllamaEmbed, { kind: "chat" }), detail: describe("Embed texts, as Ollama does", { 200: Embeddings }) },
    )
    .post(
      "/embeddings",
      async ({ body: { model, prompt }, ...caller }) => {
        const { response, answer } = await embed(caller, named(caller, { model, input: prompt }));
        return response ?? { embedding: answer?.embeddings[0] ?? [] };
      },
      {
        ...takes(OllamaEmbeddings, { kind: "chat" }),
        detail: describe("Embed one text, as older clients of Ollama do", { 200: Embedding }),
      },
    )
    .get("/tags", async (caller) => ({ models: (await usable(caller)).map(toTag) }), {
      detail: describe("List deployments and agents, as Ollama lists models", { 200: Tags }),
    })
    .get("/ps", async (caller) => ({ models: (await usable(caller)).filter(isLoaded).map(toLoaded) }), {
      detail: describe("List loaded deployments, as Ollama does", { 200: Loaded }),
    })
    .post(
      "/show",
      ({ body, principal: { workspaceId } }) => {
        const model = nameFor(ctx, workspaceId, modelOf(body));
        const shown = findListed(ctx, workspaceId, model) ?? findAgentModel(ctx, workspaceId, model);
        return toShown(shown ?? mustShow(ctx, workspaceId, model));
      },
      { ...takes(OllamaShow), detail: describe("Show a model, as Ollama does", { 200: Shown }) },
    )
    .get("/version", () => ({ version: VERSION }), {
      detail: describe("Get the version of the server, as Ollama does", { 200: Version }),
    });
};

/** A deployment that has not started is not listed. */
function mustShow(ctx: Ctx, workspaceId: string, model: string): never {
  const { name, status } = mustFind(ctx, workspaceId, model);
  throw new AppError("unsupported_state", `Deployment ${name} is ${status}: it can be shown once it runs`);
}

/** The interface of Google's Gemini API. Google writes `models/demo:generateContent`: see `http/answer/aliases.ts`. */
import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { type EmbeddingList, EmbeddingRequest } from "../../../lib/chat/embedding.ts";
import { AppError } from "../../../lib/errors.ts";
import { findAgentModel, listUsable } from "../../serving/agents/listed.ts";
import { recordRefusals } from "../../serving/deployments/chat/refusals.ts";
import { findServed } from "../../serving/deployments/served.ts";
import { type Caller, callModel, chat, chatBody, parsedAs } from "../call_model.ts";
import { translated } from "../translated.ts";
import * as schema from "./schema.ts";
import { createGoogleTranslator } from "./stream.ts";
import { textOf, toChat, toModel } from "./translate.ts";

type Input = { texts: string[]; dimensions: number | null | undefined };

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");

  async function generate(
    caller: Caller,
    body: schema.GenerateContentRequest,
    asking: { model: string; stream: boolean },
  ) {
    const response = await chat(ctx, caller, chatBody(ctx, caller, toChat(body, asking)));
    const { includeThoughts } = body.generationConfig?.thinkingConfig ?? {};
    return translated(response, createGoogleTranslator(includeThoughts === true));
  }
  async function embed(caller: Caller, model: string, { texts, dimensions }: Input) {
    const request = parsedAs(EmbeddingRequest, { model, input: texts, dimensions });
    const { response } = await callModel(ctx, caller, "/embeddings", request);
    if (!response.ok) return { response, embeddings: [] };
    const { data } = (await response.json()) as EmbeddingList;
    return { embeddings: data.map(({ embedding }) => ({ values: embedding as number[] })) };
  }

  return new Elysia({ prefix: "/v1beta/models", tags: ["Clients"] })
    .use(authed)
    .get(
      "",
      async ({ principal: { workspaceId }, query: { pageSize: limit, pageToken: after } }) => {
        const { data, has_more } = await listUsable(ctx, workspaceId, { limit, after });
        const last = data.at(-1);
        return { models: data.map(toModel), ...(has_more && last ? { nextPageToken: last.id } : {}) };
      },
      {
        ...asks(schema.ListQuery),
        detail: describe("List deployments and agents, as Google lists models", { 200: schema.GoogleModels }),
      },
    )
    .get(
      "/:model",
      ({ principal: { workspaceId }, params: { model } }) => {
        const shown = findServed(ctx, workspaceId, model) ?? findAgentModel(ctx, workspaceId, model);
        if (shown) return toModel(shown);
        throw new AppError("resource_not_found", `No deployment or agent ${model} answers`, { param: "model" });
      },
      { detail: describe("Get a deployment or an agent, as Google shows a model", { 200: schema.GoogleModel }) },
    )
    .post(
      "/:model/generateContent",
      ({ body, params, ...caller }) => generate(caller, body, { model: params.model, stream: false }),
      {
        ...takes(schema.GenerateContentRequest, { kind: "chat" }),
        detail: describe("Generate content, in the format of Google", { 200: schema.GenerateContentAnswer }),
      },
    )
    .post(
      "/:model/streamGenerateContent",
      ({ body, params, ...caller }) => generate(caller, body, { model: params.model, stream: true }),
      {
        ...takes(schema.GenerateContentRequest, { kind: "chat" }),
        ...asks(schema.StreamQuery),
        detail: describe("Generate content as a stream, in the format of Google", { 200: "text/event-stream" }),
      },
    )
    .post(
      "/:model/countTokens",
      async ({ body, params, ...caller }) => {
        const { generateContentRequest, contents, ...rest } = body;
        const request = generateContentRequest ?? { ...rest, contents: contents ?? [] };
        const counted = chatBody(ctx, caller, toChat(request, { model: params.model, stream: false }));
        const { response } = await callModel(ctx, caller, "/apply-template", counted);
        if (!response.ok) return response;
        const { input_tokens } = (await response.json()) as { input_tokens: number };
        return { totalTokens: input_tokens };
      },
      {
        ...takes(schema.GoogleCountRequest, { kind: "chat" }),
        detail: describe("Count the tokens of contents, in the format of Google", { 200: schema.GoogleCount }),
      },
    )
    .post(
      "/:model/embedContent",
      async ({ body: { content, outputDimensionality: dimensions }, params, ...caller }) => {
        const { response, embeddings } = await embed(caller, params.model, { texts: [textOf(content)], dimensions });
        return response ?? { embedding: embeddings[0] };
      },
      {
        ...takes(schema.GoogleEmbedRequest, { kind: "chat" }),
        detail: describe("Embed one text, in the format of Google", { 200: schema.GoogleEmbedding }),
      },
    )
    .post(
      "/:model/batchEmbedContents",
      async ({ body: { requests }, params, ...caller }) => {
        const texts = requests.map(({ content }) => textOf(content));
        const dimensions = requests[0]?.outputDimensionality;
        const { response, embeddings } = await embed(caller, params.model, { texts, dimensions });
        return response ?? { embeddings };
      },
      {
        ...takes(schema.GoogleBatchEmbedRequest, { kind: "chat" }),
        detail: describe("Embed texts, in the format of Google", { 200: schema.GoogleEmbeddings }),
      },
    );
};

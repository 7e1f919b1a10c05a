import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { sse } from "../../../http/answer/sse.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { openStream } from "../../../http/limits/streams.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import type { ChatCompletion } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { Deleted, flagText, numberText } from "../../../lib/schema.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import { resolveModel } from "../../serving/agents/apply.ts";
import { refuseServers } from "../../serving/agents/tools/run.ts";
import { recordRefusals } from "../../serving/deployments/chat/refusals.ts";
import { type Caller, callModel, chat, chatBody } from "../call_model.ts";
import { appendAnswer, contextOf } from "../conversations/context.ts";
import { translated } from "../translated.ts";
import { createResponseTranslator } from "./events.ts";
import { follow } from "./replay.ts";
import {
  CompactedResponse,
  CompactRequest,
  CountedInput,
  CountInput,
  InputItemList,
  ModelResponse,
  type PromptFields,
  ResponsesRequest,
} from "./schema.ts";
import * as responses from "./service.ts";
import type { ResponseRow } from "./table.ts";
import { blankResponse, promptFields, toChat, toMessages, usageOf } from "./translate.ts";

export const ItemsQuery = z.object({
  limit: numberText(z.int().min(1).max(100)).default(20),
  order: z.enum(["asc", "desc"]).default("desc"),
  after: z.string().optional().describe("The id of the last item of the page before"),
});

const RetrieveQuery = z.object({
  stream: flagText.default(false),
  starting_after: numberText(z.int().min(0)).optional().describe("With stream: only events after this number"),
});
const HEARTBEAT_MS = 10_000;
const SUMMARIZE =
  "Summarize this conversation so that you can go on without it: what was asked, what was done and found, what is decided, and what is left to do. Keep names, paths and numbers.";

/** One page of the items that a stored response was asked with. Pure. */
export function inputItems({ id, input }: Pick<ResponseRow, "id" | "input">, query: z.output<typeof ItemsQuery>) {
  const { limit, order, after } = query;
  const named = input.map((item, index) => ({ id: `in_${id.replace(/^resp_/, "")}_${index}`, ...item }));
  const ordered = order === "asc" ? named : named.reverse();
  const from = after === undefined ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  if (after !== undefined && from === 0)
    throw new AppError("invalid_cursor", "after: is not the id of an item of this response", { param: "after" });
  const data = ordered.slice(from, from + limit);
  return {
    object: "list" as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < ordered.length,
  };
}

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");
  async function itemsOf(
    { principal: { workspaceId } }: Caller,
    { input, previous_response_id: previous, conversation }: PromptFields,
  ) {
    const items = responses.itemsOf(ctx, workspaceId, input);
    const before = conversation
      ? await contextOf(ctx, workspaceId, conversation)
      : previous
        ? responses.historyOf(ctx, workspaceId, previous)
        : [];
    return { input: items, all: [...before, ...items] };
  }

  /** `after`: the number of the last event that the client has. */
  function followed({ request, principal }: Caller, id: string, after: number): Response {
    const { workspaceId } = principal;
    keepOpen(ctx, request);
    const source = (signal: AbortSignal) => follow(ctx, { workspaceId, id, after, signal });
    return sse(ctx, request, source, { heartbeatMs: HEARTBEAT_MS, onEnd: openStream(ctx, principal) });
  }

  /** The model writes the summary. Requests of the user stay as they are. */
  async function compact(caller: Caller, { input, instructions, ...request }: z.output<typeof CompactRequest>) {
    const { workspaceId } = caller.principal;
    const { all } = await itemsOf(caller, { ...request, input: input ?? [], conversation: null } as PromptFields);
    const question = { type: "message" as const, role: "user" as const, content: instructions || SUMMARIZE };
    const messages = toMessages([...all, question]);
    const response = await chat(ctx, caller, chatBody(ctx, caller, { model: request.model, messages }));
    if (!response.ok) return response;
    const { choices, usage } = (await response.json()) as ChatCompletion;
    const now = ctx.clock.now();
    const id = newId("resp", now);
    const encrypted_content = responses.sealSummary(ctx, workspaceId, choices[0]?.message.content ?? "");
    return {
      id,
      object: "response.compaction",
      created_at: Math.floor(now / 1000),
      output: [{ type: "compaction", id: id.replace(/^resp/, "cmp"), encrypted_content }],
      usage: usageOf(usage),
    };
  }

  async function create(caller: Caller, body: ResponsesRequest) {
    const { workspaceId, keyId } = caller.principal;
    const { conversation } = body;
    const isKept = body.store || conversation !== null;
    if (isKept) mustBeOpen(ctx, { workspaceId, kind: "chats" });
    const { input, all } = await itemsOf(caller, body);
    const task = chatBody(ctx, caller, toChat({ ...body, stream: body.stream && !body.background }, all));
    const model = task.model ?? resolveModel(ctx, workspaceId, undefined).deployment.name;
    const now = ctx.clock.now();
    const head = { id: newId("resp", now), createdAt: now, model, request: body };
    const stored = { workspaceId, keyId, input };
    if (body.background) {
      refuseServers(ctx, workspaceId, resolveModel(ctx, workspaceId, model).agentId); // refused at once, like an unknown model
      const row = responses.store(ctx, { ...stored, task, response: blankResponse(head, "queued") });
      ctx.state.responses.bell.resolve();
      ctx.wake("responses.run");
      return body.stream ? followed(caller, row.id, -1) : responses.present(row);
    }
    const ended = async (response: ModelResponse) => {
      if (!isKept) return;
      write(ctx.db, (tx) => {
        if (body.store) responses.store(ctx, { ...stored, task: null, response });
        appendAnswer(ctx, tx, { workspaceId, input, response });
      });
      await durable(ctx.db); // a client that has the id can continue the response
    };
    const blank = blankResponse(head, "in_progress");
    const answer = await chat(ctx, caller, { ...task, model }, conversation?.id);
    return translated(answer, createResponseTranslator(blank, ended));
  }

  return new Elysia({ prefix: "/v1/responses", tags: ["Clients"] })
    .use(authed)
    .post("", ({ body, ...caller }) => create(caller, body), {
      ...takes(ResponsesRequest, { kind: "chat" }),
      detail: describe(
        "Create a response, in the newer format of OpenAI",
        { 200: ModelResponse },
        { description: "With stream: true the answer is text/event-stream. Tools of the server are not supported." },
      ),
    })
    .post(
      "/input_tokens",
      async ({ body, ...caller }) => {
        const fields = chatBody(ctx, caller, promptFields(body, (await itemsOf(caller, body)).all));
        const { response } = await callModel(ctx, caller, "/apply-template", fields);
        if (!response.ok) return response;
        const { input_tokens } = (await response.json()) as { input_tokens: number };
        return { object: "response.input_tokens", input_tokens };
      },
      {
        ...takes(CountInput, { kind: "chat" }),
        detail: describe("Count the input tokens of a response", { 200: CountedInput }),
      },
    )
    .post("/compact", ({ body, ...caller }) => compact(caller, body), {
      ...takes(CompactRequest, { kind: "chat" }),
      detail: describe(
        "Compact a conversation: a summary takes its place",
        { 200: CompactedResponse },
        { description: "The model writes the summary. `instructions` replaces the request for it." },
      ),
    })
    .get(
      "/:id",
      ({ params, query, ...caller }) => {
        const row = responses.mustGet(ctx, caller.principal.workspaceId, params.id);
        return query.stream ? followed(caller, row.id, query.starting_after ?? -1) : responses.present(row);
      },
      {
        ...asks(RetrieveQuery),
        detail: describe(
          "Get a stored response",
          { 200: ModelResponse },
          { description: "With stream=true its events, as text/event-stream: each text comes in one piece." },
        ),
      },
    )
    .get(
      "/:id/input_items",
      ({ principal, params, query }) => inputItems(responses.mustGet(ctx, principal.workspaceId, params.id), query),
      { ...asks(ItemsQuery), detail: describe("List the input items of a stored response", { 200: InputItemList }) },
    )
    .post(
      "/:id/cancel",
      ({ principal, params }) => responses.present(responses.cancel(ctx, principal.workspaceId, params.id)),
      { detail: describe("Cancel a background response", { 200: ModelResponse }) },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = responses.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "response", deleted: true };
      },
      { detail: describe("Delete a stored response", { 200: Deleted("response") }) },
    );
};

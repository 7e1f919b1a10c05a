import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { Deleted, numberText } from "../../../lib/schema.ts";
import { durable } from "../../../platform/db/db.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import { resolveModel } from "../../serving/agents/apply.ts";
import { type Caller, callModel, chat, chatBody } from "../call_model.ts";
import { translated } from "../translated.ts";
import { createResponseTranslator } from "./events.ts";
import {
  CountedInput,
  CountInput,
  InputItemList,
  ModelResponse,
  type PromptFields,
  ResponsesRequest,
} from "./schema.ts";
import * as responses from "./service.ts";
import type { ResponseRow } from "./table.ts";
import { blankResponse, promptFields, toChat } from "./translate.ts";

export const ItemsQuery = z.object({
  limit: numberText(z.int().min(1).max(100)).default(20),
  order: z.enum(["asc", "desc"]).default("desc"),
  after: z.string().optional().describe("The id of the last item of the page before"),
});

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
  const { authed, takes } = area(ctx, "inference");
  const itemsOf = ({ principal: { workspaceId } }: Caller, { input, previous_response_id: previous }: PromptFields) => {
    const items = responses.itemsOf(ctx, workspaceId, input);
    return { input: items, all: previous ? [...responses.historyOf(ctx, workspaceId, previous), ...items] : items };
  };

  async function create(caller: Caller, body: ResponsesRequest) {
    const { workspaceId, keyId } = caller.principal;
    if (body.store || body.background) mustLeaveSpace(ctx);
    const { input, all } = itemsOf(caller, body);
    const task = chatBody(ctx, caller, toChat(body, all));
    const model = task.model ?? resolveModel(ctx, workspaceId, undefined).deployment.name;
    const now = ctx.clock.now();
    const head = { id: newId("resp", now), createdAt: now, model, request: body };
    const stored = { workspaceId, keyId, input };
    if (body.background) {
      resolveModel(ctx, workspaceId, model); // an unknown model is refused at once
      const row = responses.store(ctx, { ...stored, task, response: blankResponse(head, "queued") });
      ctx.state.responses.bell.resolve();
      ctx.wake("responses.run");
      return responses.present(row);
    }
    const ended = async (response: ModelResponse) => {
      if (!body.store) return;
      responses.store(ctx, { ...stored, task: null, response });
      await durable(ctx.db); // a client that has the id can continue the response
    };
    const blank = blankResponse(head, "in_progress");
    return translated(await chat(ctx, caller, { ...task, model }), createResponseTranslator(blank, ended));
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
        const fields = chatBody(ctx, caller, promptFields(body, itemsOf(caller, body).all));
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
    .get(
      "/:id",
      ({ principal, params }) => responses.present(responses.mustGet(ctx, principal.workspaceId, params.id)),
      {
        detail: describe("Get a stored response", { 200: ModelResponse }),
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

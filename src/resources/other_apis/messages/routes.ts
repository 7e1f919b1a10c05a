import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { AppError } from "../../../lib/errors.ts";
import { recordRefusals } from "../../serving/deployments/chat/refusals.ts";
import { callModel, chat, chatBody } from "../call_model.ts";
import { translated } from "../translated.ts";
import { batchRoutes } from "./batch_routes.ts";
import { createMessageTranslator } from "./events.ts";
import { withFiles } from "./files.ts";
import { CountedTokens, CountTokensRequest, Message, MessagesRequest } from "./schema.ts";
import { promptFields, toChat } from "./translate.ts";

export const routes = (ctx: Ctx) => new Elysia().use(messageRoutes(ctx)).use(batchRoutes(ctx));

/** To ignore the field would lose the conversation: a client that continues a thread sends the newest messages alone. */
function refuseThread(): never {
  const message = "thread: this server keeps no threads. Send the whole conversation in messages";
  const details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
  throw new AppError("unsupported_state", message, { param: "/thread", more: { details } });
}

const messageRoutes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/messages", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      async ({ body, ...caller }) => {
        if (body.thread) refuseThread();
        const response = await chat(
          ctx,
          caller,
          chatBody(ctx, caller, toChat(await withFiles(ctx, caller.principal.workspaceId, body))),
        );
        return translated(response, createMessageTranslator());
      },
      {
        ...takes(MessagesRequest, { kind: "chat" }),
        detail: describe(
          "Create a message, in the format of Anthropic",
          { 200: Message },
          { description: "With stream: true the answer is text/event-stream." },
        ),
      },
    )
    .post(
      "/count_tokens",
      async ({ body, ...caller }) => {
        const { response } = await callModel(
          ctx,
          caller,
          "/apply-template",
          chatBody(ctx, caller, promptFields(await withFiles(ctx, caller.principal.workspaceId, body))),
        );
        if (!response.ok) return response;
        const { input_tokens } = (await response.json()) as { input_tokens: number };
        return { input_tokens };
      },
      {
        ...takes(CountTokensRequest, { kind: "chat" }),
        detail: describe("Count the tokens of a message", { 200: CountedTokens }),
      },
    );
};

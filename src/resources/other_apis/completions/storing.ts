/** Answers a chat with store: true, and stores the answer when it is complete. */
import type { Ctx, Principal } from "../../../context.ts";
import { openaiEnvelope } from "../../../http/answer/client_errors.ts";
import { type Issue, schemaError } from "../../../http/answer/issues.ts";
import { requestIdOf } from "../../../http/request_state.ts";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { SSE_DONE, sseData } from "../../../lib/net/sse.ts";
import { Metadata } from "../../../lib/schema.ts";
import { durable } from "../../../platform/db/db.ts";
import { mustBeOpen } from "../../data/storage_usage/service.ts";
import { type Translator, translated } from "../translated.ts";
import { createCollector } from "./collect.ts";
import { store } from "./service.ts";

type Call = { request: Request; principal: Principal; body: ChatCompletionRequest };
type Send = (body: ChatCompletionRequest) => Promise<Response>;

export async function storing(ctx: Ctx, { request, principal, body }: Call, send: Send): Promise<Response> {
  const { workspaceId } = principal;
  const metadata = metadataOf(body);
  mustBeOpen(ctx, { workspaceId, kind: "chats" });
  const requestId = requestIdOf(request);
  const keep = async (completion: ChatCompletion) => {
    store(ctx, { workspaceId, body, metadata, requestId, completion });
    await durable(ctx.db);
  };
  // The stored answer has its usage, also where the client does not ask for it.
  const sent = body.stream ? { ...body, stream_options: { ...body.stream_options, include_usage: true } } : body;
  return translated(await send(sent), storingTranslator(body, keep));
}

/** A client filters by these pairs, so they are texts. Without `store` any values are allowed. */
function metadataOf({ metadata }: ChatCompletionRequest): Metadata {
  const result = Metadata.safeParse(metadata ?? {});
  if (result.success) return result.data;
  const [issue] = result.error.issues as Issue[];
  throw schemaError(issue && { ...issue, path: ["metadata", ...(issue.path ?? [])] });
}

/** The answer stays as it is. */
function storingTranslator(
  { stream_options: options }: ChatCompletionRequest,
  keep: (completion: ChatCompletion) => Promise<void>,
): Translator<ChatCompletion, ChatCompletionChunk> {
  const collector = createCollector();
  return {
    async whole(answer) {
      await keep(answer);
      return answer;
    },
    chunk(chunk) {
      collector.add(chunk);
      if (options?.include_usage) return sseData(JSON.stringify(chunk));
      const { usage, ...rest } = chunk;
      return usage && rest.choices.length === 0 ? "" : sseData(JSON.stringify(rest));
    },
    async end() {
      const completion = collector.whole();
      try {
        if (completion) await keep(completion);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        return sseData(JSON.stringify(openaiEnvelope(error)));
      }
      return SSE_DONE;
    },
    error: (_message, _code, sent) => sseData(JSON.stringify(sent)),
  };
}

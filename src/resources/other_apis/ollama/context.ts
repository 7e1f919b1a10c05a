/** `context` of /api/generate: the tokens of a conversation so far, which the caller keeps and sends again. */
import type { Ctx } from "../../../context.ts";
import type { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Caller, callModel } from "../call_model.ts";

/** The tokens that the model reads for a chat request. Texts of the caller hold no control tokens. */
export async function promptTokensOf(ctx: Ctx, caller: Caller, body: ChatCompletionRequest): Promise<number[]> {
  const request: ChatCompletionRequest = { ...body, stream: false, verbose: true };
  const { response } = await callModel(ctx, caller, "/apply-template", request);
  const { tokens } = (await mustAnswer(response)) as { tokens: number[] };
  return tokens;
}

export async function textTokensOf(ctx: Ctx, caller: Caller, model: string, content: string): Promise<number[]> {
  const { response } = await callModel(ctx, caller, "/tokenize", { model, content, parse_special: false } as never);
  const { tokens } = (await mustAnswer(response)) as { tokens: number[] };
  return tokens;
}

async function mustAnswer(response: Response): Promise<unknown> {
  const answer = (await response.json()) as { error?: string };
  if (response.ok) return answer;
  throw new AppError("invalid_request", String(answer.error));
}

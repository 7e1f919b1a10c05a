/** Completions and vectors for other resources. Their requests go the way of a client's request. */
import type { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { type ChatCompletion, ChatCompletionRequest, type FinishReason } from "../../../../lib/chat/chat_completion.ts";
import { EmbeddingRequest } from "../../../../lib/chat/embedding.ts";
import type { PromptMessage } from "../../../../lib/chat/messages.ts";
import { AppError, ERRORS, type ErrorCode } from "../../../../lib/errors.ts";
import { type Outside, OutsideError } from "../../../../lib/json/outside.ts";
import { readAside } from "../../../../platform/outside.ts";
import { mustGet } from "../service.ts";
import type { DeploymentRow } from "../table.ts";
import { codeOf, messageOf } from "./error_message.ts";
import { CHAT_ANSWER, VECTORS } from "./forms.ts";
import { type InferenceRequest, inferWhole, type Whole } from "./infer.ts";

export type InferenceTask = {
  workspaceId: string;
  deploymentId: string;
  signal: AbortSignal;
  /** Waits while live requests need the slots of the deployment. */
  background: boolean;
  /** The key that pays if the request wakes the deployment. Default: the key that pays now. */
  keyId?: string | null;
};

/** Every field of a chat request except the model, the messages, and those that change the form of the answer. */
export type GenerationParams = Omit<z.input<typeof ChatCompletionRequest>, "model" | "messages" | "stream" | "n">;
export type GenerateRequest = InferenceTask & { messages: z.input<typeof PromptMessage>[]; params?: GenerationParams };

export type Generation = {
  /** The record of the request: GET /v1/deployments/{id}/requests. */
  requestId: string;
  /** GET /v1/traces/{id}. */
  traceId: string;
  text: string;
  message: ChatCompletion["choices"][number]["message"];
  finishReason: FinishReason;
  promptTokens: number;
  completionTokens: number;
  /** From the start of the request to its whole answer. A background request's wait for its turn does not count. */
  latencyMs: number;
};

/** One chat completion. Throws the error that a client would read, or the reason of `signal`. */
export async function generate(ctx: Ctx, { messages, params = {}, ...request }: GenerateRequest): Promise<Generation> {
  const row = mustGet(ctx, request.workspaceId, request.deploymentId);
  const body = ChatCompletionRequest.parse({ reasoning_format: "none", ...params, messages, model: row.name });
  const { id, traceId, latencyMs, text } = await mustInfer(ctx, row, { ...request, path: "/chat/completions", body });
  const { choices, usage } = await readAnswer(CHAT_ANSWER, text, request);
  const [choice] = choices;
  if (!choice) throw new AppError("worker_failed", "The deployment answered without a completion: try again");
  return {
    requestId: id,
    traceId,
    text: choice.message.content ?? "",
    message: choice.message,
    finishReason: choice.finish_reason,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    latencyMs,
  };
}

/** One vector for each text, in order. */
export async function embed(ctx: Ctx, { input, ...request }: InferenceTask & { input: string[] }): Promise<number[][]> {
  const row = mustGet(ctx, request.workspaceId, request.deploymentId);
  const { text } = await mustInfer(ctx, row, {
    ...request,
    path: "/embeddings",
    body: EmbeddingRequest.parse({ input }),
  });
  const { data } = await readAnswer(VECTORS, text, request);
  return data.map(({ embedding }) => embedding);
}

async function readAnswer<T>(form: Outside<T>, text: string, { workspaceId, signal }: InferenceTask): Promise<T> {
  try {
    return await readAside(form, new TextEncoder().encode(text), { workspaceId, signal });
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new AppError("worker_failed", `${cause.message}: try again`, { cause });
  }
}

type Inference = Omit<InferenceRequest, "keyId"> & Pick<InferenceTask, "keyId">;

/** An answer without an error. Throws the error that a client would read, or the reason of `signal`. */
export async function mustInfer(ctx: Ctx, row: DeploymentRow, request: Inference): Promise<Whole> {
  const { keyId = row.apiKeyId } = request;
  const signal = AbortSignal.any([request.signal, ctx.closing]);
  try {
    const answered = await inferWhole(ctx, row, { ...request, keyId, signal });
    if (answered.status >= 400) throw refusal(answered.text);
    return answered;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

function refusal(text: string): AppError {
  const code = String(codeOf(text));
  return new AppError(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "worker_failed", messageOf(text));
}

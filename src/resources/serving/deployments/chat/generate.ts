/**
 * Inference without HTTP, for other resources. A request goes the way of a client's request: it wakes the deployment,
 * waits for a replica, is sent again if the replica is lost, and is recorded.
 */
import type { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { type ChatCompletion, ChatCompletionRequest, type FinishReason } from "../../../../lib/chat/chat_completion.ts";
import { EmbeddingRequest } from "../../../../lib/chat/embedding.ts";
import type { PromptMessage } from "../../../../lib/chat/messages.ts";
import { AppError, ERRORS, type ErrorCode } from "../../../../lib/errors.ts";
import { type Outside, OutsideError } from "../../../../lib/json/outside.ts";
import { ClientLeft } from "../../../../lib/net/client_left.ts";
import { readAside } from "../../../../platform/outside.ts";
import { takeTurn } from "../fleet/background.ts";
import { liveOf, take } from "../fleet/fleet.ts";
import { mustGet } from "../service.ts";
import { causeOf, explain, failureOf, outcomeOf } from "./answer.ts";
import { codeOf, messageOf } from "./error_message.ts";
import { Flight, type InferenceCall } from "./flight.ts";
import { CHAT_ANSWER, VECTORS } from "./forms.ts";
import { send } from "./send.ts";
import { mustBeOpen, waitFor } from "./wait.ts";

export type InferenceTask = {
  workspaceId: string;
  deploymentId: string;
  signal: AbortSignal;
  /** Waits while live requests need the slots of the deployment. */
  background: boolean;
  /** The key that pays if the request wakes the deployment. Default: the key that pays now. */
  keyId?: string | null;
  /** The agent that the model of the request names. */
  agentId?: string | null;
  agentVersion?: number | null;
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
  const read = (model: string) => ChatCompletionRequest.parse({ reasoning_format: "none", ...params, messages, model });
  const { id, traceId, latencyMs, text } = await infer(ctx, request, { path: "/chat/completions", read });
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
  const read = (model: string) => EmbeddingRequest.parse({ input, model });
  const { text } = await infer(ctx, request, { path: "/embeddings", read });
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

/** `read`: the checked body for the deployment of this name. */
type Call = { path: InferenceCall["path"]; read: (model: string) => { model?: string | undefined } };

/** One answer as JSON text. Throws the error that a client would read, or the reason of `signal`. */
export async function infer(ctx: Ctx, request: InferenceTask, { path, read }: Call) {
  const { workspaceId, deploymentId, background, keyId, agentId = null, agentVersion = null } = request;
  const row = mustGet(ctx, workspaceId, deploymentId);
  const given = read(row.name);
  const body = { ...given, model: given.model ?? row.name };
  const signal = AbortSignal.any([request.signal, ctx.closing]);
  mustBeOpen(row);
  const endTurn = background ? await takeTurn(liveOf(ctx, row.id), signal) : () => {};
  const startedAt = performance.now();
  const call = { path, body, keyId: keyId === undefined ? row.apiKeyId : keyId, background, agentId, agentVersion };
  const flight = new Flight(ctx, row, call, endTurn);
  const leave = () => flight.abort(new ClientLeft());
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  try {
    const replica = take(flight.live);
    if (replica) flight.attach(replica);
    else await waitFor(flight);
    const answered = await send(flight);
    if ("body" in answered) throw new Error("a request without `stream` was answered with a stream");
    const { status, text } = answered;
    flight.keep(text);
    flight.finish(status < 400 ? { status, error: null } : failureOf(status, text));
    if (status >= 400) throw refusal(text);
    return { id: flight.id, traceId: flight.traceId, latencyMs: performance.now() - startedAt, text };
  } catch (error) {
    const cause = causeOf(flight, error);
    flight.finish(outcomeOf(cause));
    signal.throwIfAborted();
    throw explain(cause);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

function refusal(text: string): AppError {
  const code = String(codeOf(text));
  return new AppError(Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "worker_failed", messageOf(text));
}

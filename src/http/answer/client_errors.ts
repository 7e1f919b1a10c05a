/**
 * Errors of the routes that other programs were written for. Each has the status, type and code that clients of that
 * format expect, so that their own handlers work. Pure.
 */
import { z } from "zod";
import { type AppError, ERRORS, errorBody } from "../../lib/errors.ts";
import { pathOf } from "../../lib/net/request_target.ts";
import { stateOf } from "../request_state.ts";
import { speaksAnthropic } from "./anthropic.ts";

/** `contract`: the chat route of the platform itself. It has the errors of OpenAI, but 422 for a body that is wrong. */
export type ClientFormat = "contract" | "openai" | "anthropic" | "ollama" | "google";

const PATHS: readonly [path: RegExp, format: ClientFormat][] = [
  [/^\/v1\/messages(?:\/|$)/, "anthropic"],
  [/^\/api\/(?:chat|generate|embed|embeddings|tags|show|ps|version|pull|delete|copy|create|push)$/, "ollama"],
  [/^\/v1\/deployments\/[^/]+\/chat\/completions$/, "contract"],
  [/^\/v1\/(?:deployments\/[^/]+\/)?(?:chat\/completions|completions|embeddings)(?:\/|$)/, "openai"],
  [
    /^\/v1\/(?:responses|conversations|rerank|files|uploads|batches|fine_tuning|evals|containers|vector_stores|audio|images|videos|moderations)(?:\/|$)/,
    "openai",
  ],
  [/^\/api\/v0\/models$/, "openai"],
  [/^\/v1beta\//, "google"],
  [/^\/models\/[^/]+\/pipeline\//, "ollama"], // Hugging Face has a text as error too
  [/^\/(?:completion|tokenize|detokenize|apply-template|infill|props|slots|lora-adapters)$/, "openai"],
];

export const clientFormatOf = (path: string): ClientFormat | undefined =>
  PATHS.find(([pattern]) => pattern.test(path))?.[1];

/** Routes that two formats share. */
const SHARED = /^\/v1\/(?:files|models)(?:\/|$)/;

/** The format of the errors of a request. */
export function clientFormatFor(request: Request, path = pathOf(request)): ClientFormat | undefined {
  return SHARED.test(path) && speaksAnthropic(request) ? "anthropic" : clientFormatOf(path);
}

/** Routes that llama.cpp alone has. Its clients, and those of Anthropic, send the key in X-API-Key, also at paths without /v1. */
const OF_LLAMA = /^\/(?:completion|tokenize|detokenize|apply-template|infill|props|slots|lora-adapters)$/;

export function takesApiKeyHeader(request: Request): boolean {
  const path = pathOf(request);
  return stateOf(request).isOfLlama || OF_LLAMA.test(path) || clientFormatFor(request, path) === "anthropic";
}

type ShownError = Pick<AppError, "code" | "type" | "message" | "param" | "status" | "more">;

/** OpenAI knows no 422, and has its own codes for a bad field, a model that is not there and a rate. */
export function openaiError({ code, type, message, param, status }: ShownError) {
  const shown = { type, code: code as string, message, param };
  if (code === "resource_not_found" && param === "/model")
    return { status, error: { ...shown, type: "invalid_request_error", code: "model_not_found" } };
  if (code === "rate_limited") return { status, error: { ...shown, code: "rate_limit_exceeded" } };
  if (status !== 422) return { status, error: shown };
  const missing = /: is (?:required|missing)/.test(message);
  return {
    status: 400,
    error: { ...shown, type: "invalid_request_error", code: missing ? "missing_required_parameter" : "invalid_value" },
  };
}

export const openaiEnvelope = (error: AppError) => ({
  error: { ...errorBody(error).error, ...openaiError(error).error },
});

const ANTHROPIC_TYPES: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
};

const OPENAI_STATUSES: Record<string, number> = {
  model_not_found: 404,
  rate_limit_exceeded: 429,
  missing_required_parameter: 400,
  invalid_value: 400,
};

/** The type of an error that ends a stream. `code`: as OpenAI names it. */
export function anthropicTypeOf(code: string | undefined): string {
  return ANTHROPIC_TYPES[statusOf(code)] ?? "api_error";
}

/** `code` and `param` are additions: clients of this format do not read them. */
export function anthropicError(error: ShownError) {
  const status = error.status === 422 ? 400 : error.status;
  const { code, message, param, more } = error;
  return {
    status,
    body: { type: "error", error: { type: ANTHROPIC_TYPES[status] ?? "api_error", message, code, param, ...more } },
  };
}

const GOOGLE_STATUSES: Record<number, string> = {
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
};

export const GoogleError = z
  .object({
    error: z.object({
      code: z.int().describe("The status of the answer"),
      message: z.string(),
      status: z.string().describe("NOT_FOUND, INVALID_ARGUMENT, …"),
      details: z.array(z.object({ reason: z.string(), field: z.string().nullable() })).optional(),
    }),
  })
  .meta({ id: "GoogleError" });

/** `status`: of the answer. */
export const googleError = (status: number, message: string, details?: { reason: string; field: string | null }) => ({
  error: {
    code: status,
    message,
    status: GOOGLE_STATUSES[status] ?? (status < 500 ? "INVALID_ARGUMENT" : "INTERNAL"),
    ...(details ? { details: [details] } : {}),
  },
});

/** The status of an error that ends a stream. `code`: as OpenAI names it. */
const statusOf = (code: string | undefined): number =>
  (Object.hasOwn(ERRORS, code ?? "") ? ERRORS[code as keyof typeof ERRORS][0] : undefined) ??
  OPENAI_STATUSES[code ?? ""] ??
  500;

/** An error that ends a stream. */
export const googleStreamError = (code: string | undefined, message: string) => googleError(statusOf(code), message);

export function clientErrorResponse(format: ClientFormat, error: AppError): Response {
  const { headers } = error;
  if (format === "contract" && error.status === 422) return Response.json(errorBody(error), { status: 422, headers });
  if (format === "openai" || format === "contract")
    return Response.json(openaiEnvelope(error), { status: openaiError(error).status, headers });
  if (format === "anthropic") {
    const { status, body } = anthropicError(error);
    return Response.json(body, { status, headers });
  }
  const { code, message, param } = error;
  const status = error.status === 422 ? 400 : error.status;
  if (format === "google")
    return Response.json(googleError(status, message, { reason: code, field: param }), { status, headers });
  return Response.json({ error: message, code }, { status, headers });
}

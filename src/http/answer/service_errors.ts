/** The interface of detection, on the same port: `{error, code}` for every failure under its paths, and no 422. */
import { z } from "zod";
import type { AppError, ErrorCode } from "../../lib/errors.ts";
import { clientFormatOf } from "./client_errors.ts";

export const ServiceError = z
  .object({
    error: z.string(),
    code: z.string().describe("MISSING_API_KEY, INVALID_IMAGE, RATE_LIMITED, …"),
    model_results: z
      .record(
        z.string(),
        z.object({ score: z.number(), status: z.string(), latency_ms: z.number(), error: z.string().nullable() }),
      )
      .optional()
      .describe("With ALL_MODELS_FAILED, and with UNSUPPORTED_FORMAT if no named model reads the file"),
  })
  .meta({ id: "DetectionError" });

const PATHS = /^\/(?:api|v1\/detect|v1\/config)(?:\/|$)/;
/** The routes of Ollama stand under /api too. */
export const isServicePath = (path: string): boolean => PATHS.test(path) && clientFormatOf(path) === undefined;

/** The others are the platform's codes in capitals. */
const CODES: Partial<Record<ErrorCode, string>> = {
  revoked_api_key: "EXPIRED_API_KEY",
  resource_not_found: "NOT_FOUND",
  route_not_found: "NOT_FOUND",
  monthly_quota_exceeded: "QUOTA_EXCEEDED",
  schema: "INVALID_REQUEST",
  internal: "INTERNAL_ERROR",
};

export const serviceCodeOf = (code: ErrorCode): string => CODES[code] ?? code.toUpperCase();

export function serviceErrorResponse({ code, message, status, headers, more }: AppError): Response {
  return Response.json(
    { error: message, code: serviceCodeOf(code), ...more },
    { status: status === 422 ? 400 : status, headers },
  );
}

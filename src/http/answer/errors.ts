import { Elysia, ParseError, ValidationError } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { AppError, errorBody } from "../../lib/errors.ts";
import { ClientLeft } from "../../lib/net/client_left.ts";
import { pathOf } from "../../lib/net/request_target.ts";
import { issueText } from "../../lib/text/issue.ts";
import { isOfSqlite, storageError } from "../../platform/db/errors.ts";
import { noteTrouble } from "../../platform/db/trouble.ts";
import { StorageError } from "../../platform/files.ts";
import { NO_BODY } from "../body/json.ts";
import { requestIdOf } from "../request_state.ts";
import { clientErrorResponse, clientFormatFor } from "./client_errors.ts";
import { deepest, type Issue, schemaError } from "./issues.ts";
import { isServicePath, serviceErrorResponse } from "./service_errors.ts";

export const ErrorEnvelope = z
  .object({
    type: z.literal("error").optional().describe("In the format of Anthropic"),
    error: z.object({
      type: z.string(),
      code: z.string().nullable(),
      message: z.string(),
      param: z.string().nullable(),
      details: z
        .object({ error_code: z.string(), unsupported: z.array(z.string()) })
        .optional()
        .describe("In the format of Anthropic: its client sends the whole conversation instead"),
      n_prompt_tokens: z.int().optional().describe("With context_length_exceeded"),
      n_ctx: z.int().optional().describe("With context_length_exceeded: tokens that the context holds"),
    }),
  })
  .meta({ id: "Error" });

/** Makes the answer to an error. Every 4xx and 5xx is made by one of these. */
export type ErrorAnswer = (error: AppError, request: Request) => Response;

/** The one error envelope, but for the interfaces that have their own. */
export function errorResponse(error: AppError, request: Request): Response {
  const path = pathOf(request);
  if (isServicePath(path)) return serviceErrorResponse(error);
  const format = clientFormatFor(request, path);
  if (format) return clientErrorResponse(format, error);
  return Response.json(errorBody(error), { status: error.status, headers: error.headers });
}

/** Anything thrown → the error a caller may see. What is not expected is a bug: logged once, answered `internal`. */
export function toAppError(ctx: Ctx, error: unknown, request: Request): AppError {
  noteTrouble(ctx.db, error);
  if (error instanceof AppError) return expected(ctx, error, request);
  if (hasLeft(error, request)) return new AppError("invalid_request", "The client left"); // no fault, and the client does not read it
  const fault = storageFault(error);
  if (fault === undefined) return bug(ctx, error, request);
  ctx.log.error(fault.logged, { request_id: requestIdOf(request), error });
  return fault.shown;
}

function expected(ctx: Ctx, error: AppError, request: Request): AppError {
  if (error.status >= 500) ctx.log.warn(error.message, { request_id: requestIdOf(request), error });
  return error;
}

const hasLeft = (error: unknown, { signal }: Request) => error instanceof ClientLeft || signal.aborted;

type Fault = { logged: string; shown: AppError };

/** Undefined: the error is not about the disk. */
function storageFault(error: unknown): Fault | undefined {
  if (error instanceof StorageError) {
    const message = `The server cannot use its storage: ${error.advice}`;
    const shown = new AppError("storage_unavailable", message, { cause: error, retryAfterSeconds: 5 });
    return { logged: error.message, shown }; // the log has the path, the caller does not learn it
  }
  const shown = isOfSqlite(error) ? storageError(error) : undefined;
  return shown instanceof AppError ? { logged: shown.message, shown } : undefined;
}

function bug(ctx: Ctx, error: unknown, request: Request): AppError {
  ctx.log.error("request failed", { request_id: requestIdOf(request), path: pathOf(request), error });
  return new AppError("internal", "Unexpected server error; the log has the details under this request's id");
}

/**
 * An error of Elysia as one of ours; any other error stays. An answer that does not fit its schema is a bug. Elysia calls
 * whatever a parser throws a fault of parsing, but ours also admit the caller: they say themselves which bodies are bad.
 */
function translated(error: unknown): unknown {
  if (error instanceof ParseError) return error.cause ?? error;
  if (error instanceof ValidationError && error.type !== "response") return invalid(error);
  return error;
}

function invalid(error: ValidationError): AppError {
  if (error.value === NO_BODY) return new AppError("invalid_json", "The body is empty: send a JSON object");
  const first = error.valueError as Issue | undefined; // a zod issue; Elysia types it as its own kind
  const issue = first && deepest(first);
  if (error.type === "params") return invalidParam(issue);
  return error.type === "query" ? invalidQuery(issue) : schemaError(issue);
}

const invalidParam = (issue: Issue | undefined) =>
  new AppError("resource_not_found", "No such resource", { param: String(issue?.path?.[0]) });

function invalidQuery(issue: Issue | undefined): AppError {
  const name = issue?.path?.[0];
  const message = `${String(name)}: ${issueText(issue)}`;
  return new AppError("schema", message, name === undefined ? {} : { param: String(name) });
}

export const errorEnvelope = (ctx: Ctx, answers: ErrorAnswer) =>
  new Elysia({ name: "errors" }).onError({ as: "global" }, ({ error: thrown, request }) => {
    const error = toAppError(ctx, translated(thrown), request);
    ctx.state.http.onRefusal?.(request, error);
    return answers(error, request);
  });

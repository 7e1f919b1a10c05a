import { Elysia, ValidationError } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { AppError, errorBody } from "../../lib/errors.ts";
import { ClientLeft } from "../../lib/net/client_left.ts";
import { pathOf } from "../../lib/net/request_target.ts";
import { plainIssue } from "../../lib/text/issue.ts";
import { isOfSqlite, storageError } from "../../platform/db/errors.ts";
import { noteTrouble } from "../../platform/db/trouble.ts";
import { StorageError } from "../../platform/files.ts";
import { requireKeyFor } from "../auth.ts";
import { NO_BODY } from "../body/json.ts";
import { requestIdOf } from "../request_state.ts";
import { absentModel } from "./absent.ts";
import { clientErrorResponse, clientFormatOf } from "./client_errors.ts";
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
  const format = clientFormatOf(path);
  if (format) return clientErrorResponse(format, error);
  return Response.json(errorBody(error), { status: error.status, headers: error.headers });
}

/** Anything thrown → the error a caller may see. What is not expected is a bug: logged once, answered `internal`. */
export function toAppError(ctx: Ctx, error: unknown, request: Request): AppError {
  noteTrouble(ctx.db, error);
  if (error instanceof AppError) {
    if (error.status >= 500) ctx.log.warn(error.message, { request_id: requestIdOf(request), error });
    return error;
  }
  if (error instanceof ClientLeft || request.signal.aborted) return new AppError("invalid_request", "The client left"); // no fault, and the client does not read it
  if (error instanceof StorageError) {
    ctx.log.error(error.message, { request_id: requestIdOf(request), error });
    const message = `The server cannot use its storage: ${error.advice}`;
    return new AppError("storage_unavailable", message, { cause: error, retryAfterSeconds: 5 });
  }
  const known = isOfSqlite(error) ? storageError(error) : error;
  if (known instanceof AppError) {
    ctx.log.error(known.message, { request_id: requestIdOf(request), error });
    return known;
  }
  ctx.log.error("request failed", { request_id: requestIdOf(request), path: pathOf(request), error });
  return new AppError("internal", "Unexpected server error; the log has the details under this request's id");
}

/** The first bad field: a JSON pointer in a body, the bare name in a query or path. */
function validationError(where: string, issue: Issue | undefined): AppError {
  const first = issue?.path?.[0];
  if (where === "params") return new AppError("resource_not_found", "No such resource", { param: String(first) });
  if (where !== "query") return schemaError(issue);
  const message = plainIssue(issue?.message ?? "is not valid");
  return new AppError("schema", `${String(first)}: ${message}`, first === undefined ? {} : { param: String(first) });
}

/** The 401 for a path without a route; undefined: the caller may learn that there is none. */
function refusal(ctx: Ctx, request: Request, path: string): AppError | undefined {
  try {
    requireKeyFor(ctx, request, path);
    return undefined;
  } catch (error) {
    return toAppError(ctx, error, request);
  }
}

/** The page for an address without a route, if a browser opens it. */
export type PageFor = (request: Request, path: string) => Promise<Response> | undefined;

type Telling = { answers: ErrorAnswer; pageFor: PageFor; methodsOf: (path: string) => readonly string[] };

export const errorEnvelope = (ctx: Ctx, { answers, pageFor, methodsOf }: Telling) =>
  new Elysia({ name: "errors" }).onError({ as: "global" }, ({ error, code, request }) => {
    const answer = (known: AppError) => answers(known, request);
    if (code === "VALIDATION" && error instanceof ValidationError && error.type !== "response") {
      if (error.value === NO_BODY) return answer(new AppError("invalid_json", "The body is empty: send a JSON object"));
      const issue = error.valueError as Issue | undefined; // a zod issue; Elysia types it as its own kind
      return answer(validationError(error.type, issue && deepest(issue)));
    }
    if (code === "PARSE" && !(error.cause instanceof AppError))
      return answer(new AppError("invalid_json", "The body is not valid JSON"));
    if (code === "NOT_FOUND") {
      const path = pathOf(request);
      const allowed = methodsOf(path);
      if (allowed.length === 0) {
        const page = pageFor(request, path);
        if (page) return page;
        const refused = refusal(ctx, request, path);
        if (refused) return answer(refused);
        const absent = absentModel(path);
        if (absent) return answer(absent);
        const where = methodsOf("/docs").length > 0 ? "; see /docs" : " on this port";
        return answer(new AppError("route_not_found", `No route ${request.method} ${path}${where}`));
      }
      return answer(
        new AppError("method_not_allowed", `${path} takes ${allowed.join(", ")}`, {
          headers: { allow: allowed.join(", ") },
        }),
      );
    }
    return answer(toAppError(ctx, code === "PARSE" ? error.cause : error, request));
  });

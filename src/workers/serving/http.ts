/**
 * The worker's HTTP interface on its unix socket. The server in front has checked the key, the deployment and the body,
 * and says so in a header. A body without that header is parsed here. Each request is reported once, even if its client
 * left.
 */

import type { ZodType } from "zod";
import { ChatCompletionRequest } from "../../lib/chat/chat_completion.ts";
import { CompletionRequest } from "../../lib/chat/completion.ts";
import { EmbeddingRequest } from "../../lib/chat/embedding.ts";
import { PRIORITIES, type Priority, rankOf } from "../../lib/chat/priority.ts";
import { ScoreRequest } from "../../lib/chat/rerank.ts";
import { DetokenizeRequest, TokenizeRequest } from "../../lib/chat/tokens.ts";
import { AppError, errorBody } from "../../lib/errors.ts";
import { jsonPointer } from "../../lib/json/pointer.ts";
import { CLIENT_LEFT_STATUS, ClientLeft } from "../../lib/net/client_left.ts";
import { pathOf, queryOf } from "../../lib/net/request_target.ts";
import { issueText } from "../../lib/text/issue.ts";
import type { FromServing, ServingHealth } from "../protocol.ts";
import { chat } from "./chat.ts";
import { complete } from "./completions.ts";
import { ContextOverflow } from "./engine/types.ts";
import { checkHealth } from "./health.ts";
import { abortReason, type Exchange, newTally, type Served, type Tally, timingsOf } from "./request.ts";
import { Drawn } from "./tokens/drawn.ts";
import { applyTemplate, detokenize, props, tokenize } from "./tokens/utilities.ts";
import { embed } from "./vectors/embeddings.ts";
import { rerank } from "./vectors/rerank.ts";

type Report = Extract<FromServing, { type: "served" }>;
export type Fetch = (request: Request) => Promise<Response>;
/** `checked`: the server in front has parsed the body with the same schema and sent the result. */
type Route = (served: Served, body: unknown, exchange: Exchange, checked: boolean) => Promise<Response>;

const HEALTH_WAIT_MS = 1_000;
const MAX_BODY_BYTES = 256 * 1024 * 1024; // the server in front has its own, smaller limit

const takes =
  <T>(schema: ZodType<T>, handle: Handle<T>): Route =>
  (served, body, exchange, checked) => {
    if (checked) return handle(served, body as T, exchange);
    const parsed = schema.safeParse(body);
    if (parsed.success) return handle(served, parsed.data, exchange);
    const issue = parsed.error.issues[0];
    const path = issue?.path ?? [];
    if (path.length === 0) throw new AppError("schema", `The request body is invalid: ${issueText(issue)}`);
    throw new AppError("schema", `${path.map(String).join(".")}: ${issueText(issue)}`, {
      param: jsonPointer(path),
    });
  };

type Handle<T> = (served: Served, body: T, exchange: Exchange) => Promise<Response>;

/** Refuses a model that generates no text. */
const generating =
  <T>(handle: Handle<T>): Handle<T> =>
  async (served, body, exchange) => {
    const { isEncoder, pooling } = served.engine.facts;
    if (!isEncoder) return await handle(served, body, exchange);
    const route = pooling === "rank" ? "/v1/rerank" : "/v1/embeddings";
    throw new AppError("schema", `model: this model generates no text. Send texts to ${route}, or name another model`, {
      param: "/model",
    });
  };

const ROUTES: Record<string, Route> = {
  "/chat/completions": takes(ChatCompletionRequest, generating(chat)),
  "/completions": takes(CompletionRequest, generating(complete)),
  "/embeddings": takes(EmbeddingRequest, embed),
  "/rerank": takes(ScoreRequest, rerank),
  "/tokenize": takes(TokenizeRequest, tokenize),
  "/detokenize": takes(DetokenizeRequest, detokenize),
  "/apply-template": takes(ChatCompletionRequest, generating(applyTemplate)),
  "/props": (served) => props(served),
};

export function listen(unix: string, fetch: Fetch) {
  // A long answer is silent until it is complete. Bun supports this option for sockets, but its types do not.
  const options = { unix, fetch, idleTimeout: 0, maxRequestBodySize: MAX_BODY_BYTES };
  return Bun.serve(options as unknown as Bun.Serve.Options<undefined>);
}

/** Requests may name an adapter after `open(adapter)`. The base model is always open. */
export type RequestHandler = {
  readonly fetch: Fetch;
  open: (adapter: string) => void;
  /** Aborts the running requests of this adapter. Null: those of the base model, which stays open. */
  close: (adapter: string | null) => void;
};

/** `stopping` aborts the running requests. */
export function createRequestHandler(
  served: Served,
  report: (message: Report) => void,
  stopping: AbortSignal,
): RequestHandler {
  const live = new Map<AbortController, string | null>();
  const adapters = new Set<string>();
  const stopped = () =>
    new AppError("shutting_down", "The deployment is stopping. Try again", { retryAfterSeconds: 1 });
  stopping.addEventListener("abort", () => {
    for (const controller of live.keys()) controller.abort(stopped());
  });
  const fetch: Fetch = async (request) => {
    const path = pathOf(request);
    if (request.method === "GET" && path === "/health")
      return await answered(() =>
        checkHealth(served.engine, Number(queryOf(request).get("wait_ms") ?? HEALTH_WAIT_MS)),
      );
    if (request.method === "GET" && path === "/stats") return stats(served);
    const route = request.method === "POST" && Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
    if (!route) return failure(new AppError("route_not_found", `No route ${request.method} ${path}`));
    const adapter = request.headers.get("x-verk-adapter");
    if (stopping.aborted || (adapter !== null && !adapters.has(adapter))) return failure(stopped());

    const controller = new AbortController();
    live.set(controller, adapter);
    const left = () => controller.abort(new ClientLeft());
    if (request.signal.aborted) left();
    request.signal.addEventListener("abort", left);
    return await exchanged(
      request,
      controller.signal,
      async (body, exchange) =>
        route(
          { ...served, adapter: adapter ?? undefined, rank: rankIn(request) },
          body,
          exchange,
          request.headers.has("x-verk-checked"),
        ),
      (message) => {
        live.delete(controller);
        report(message);
      },
    );
  };
  return {
    fetch,
    open: (adapter) => void adapters.add(adapter),
    close(adapter) {
      if (adapter !== null) adapters.delete(adapter);
      for (const [controller, uses] of live) if (uses === adapter) controller.abort(stopped());
    },
  };
}

/** Handles one request from its body to its report. */
async function exchanged(
  request: Request,
  signal: AbortSignal,
  handle: (body: unknown, exchange: Exchange) => Promise<Response>,
  report: (message: Report) => void,
): Promise<Response> {
  const name = request.headers.get("x-verk-request") ?? crypto.randomUUID();
  const tally = newTally();
  const drawn = request.headers.has("x-verk-tokens") ? new Drawn() : undefined;
  const over = (status: number, error: string | null) =>
    report({ ...reportOf(name, tally), status, error, ...(drawn ? { drawn: drawn.report() } : {}) });
  const failed = (error: unknown) => over(...outcome(error, signal));
  let stream: Promise<void> | undefined;
  const exchange: Exchange = {
    id: name.replace(/^req_/, ""),
    signal,
    tally,
    drawn,
    isOfLlama: request.headers.has("x-verk-llama"),
    streamed: (ends) => {
      stream = ends;
      ends.then(() => over(200, null), failed);
    },
    explain: (error) => toAppError(error, signal),
  };
  try {
    const response = await handle(await bodyOf(request), exchange);
    if (!stream) over(response.status, null);
    return response;
  } catch (error) {
    failed(error);
    return failure(toAppError(error, signal));
  }
}

/** The server in front names the priority. */
function rankIn({ headers }: Request): number {
  const named = PRIORITIES.indexOf(headers.get("x-verk-priority") as Priority);
  return named < 0 ? rankOf("normal") : named;
}

const reportOf = (request: string, tally: Tally) => ({
  type: "served" as const,
  request,
  prompt_tokens: tally.promptTokens,
  cached_tokens: tally.cachedTokens,
  completion_tokens: tally.completionTokens,
  timings: timingsOf(tally),
});

async function bodyOf(request: Request): Promise<unknown> {
  try {
    return await request.json();
  } catch (cause) {
    throw new AppError("invalid_json", "The request body is not valid JSON", { cause });
  }
}

/** Converts any error of the engine to one that a caller may see. */
function toAppError(error: unknown, signal: AbortSignal): AppError {
  if (error instanceof AppError) return error;
  if (error instanceof ContextOverflow) return new AppError("context_length_exceeded", error.message, { cause: error });
  if (signal.aborted && signal.reason instanceof AppError) return signal.reason;
  return new AppError("internal", "The model failed unexpectedly. The deployment's log has the details", {
    cause: error,
  });
}

function outcome(error: unknown, signal: AbortSignal): [status: number, message: string | null] {
  if (error instanceof ClientLeft) return [CLIENT_LEFT_STATUS, error.message];
  if (signal.aborted && abortReason(signal) instanceof ClientLeft) return [CLIENT_LEFT_STATUS, "The client left"];
  const shown = toAppError(error, signal);
  // operators see the tail of stderr
  if (shown.code === "internal") console.error(error instanceof Error ? error.stack : error);
  return [shown.status, shown.message];
}

const failure = (error: AppError) => Response.json(errorBody(error), { status: error.status, headers: error.headers });

async function answered(make: () => Promise<ServingHealth>): Promise<Response> {
  try {
    return Response.json(await make());
  } catch (error) {
    return failure(error instanceof AppError ? error : new AppError("worker_failed", String(error), { cause: error }));
  }
}

function stats({ engine }: Served): Response {
  const { active, waiting, promptTokens, cachedTokens, completionTokens, decodeCalls, idleMs } = engine.stats();
  return Response.json({
    active,
    waiting,
    prompt_tokens: promptTokens,
    cached_tokens: cachedTokens,
    completion_tokens: completionTokens,
    decode_calls: decodeCalls,
    idle_ms: Number.isFinite(idleMs) ? idleMs : null,
  });
}

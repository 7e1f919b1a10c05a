/**
 * Second addresses of routes: clients of llama.cpp leave out /v1, and ask for health and metrics at other paths; Langfuse's
 * SDK sends spans to a path of its own; Google writes the call behind the model, with a colon. The request itself gets the address of the route, so that keys, limits, errors and the log follow one path.
 */
import { moveTo, pathOf } from "../../lib/net/request_target.ts";
import { stateOf } from "../request_state.ts";
import { clientFormatOf } from "./client_errors.ts";

const ALIASES: Readonly<Record<string, string>> = {
  "/chat/completions": "/v1/chat/completions",
  "/completions": "/v1/completions",
  "/embeddings": "/v1/embeddings",
  "/embedding": "/v1/embeddings",
  "/responses": "/v1/responses",
  "/messages": "/v1/messages",
  "/rerank": "/v1/rerank",
  "/reranking": "/v1/rerank",
  "/v1/reranking": "/v1/rerank",
  "/models": "/v1/models",
  "/metrics": "/v1/metrics",
  "/health": "/healthz",
  "/v1/health": "/healthz",
  "/v1/completion": "/completion",
  "/v1/tokenize": "/tokenize",
  "/v1/detokenize": "/detokenize",
  "/api/public/otel/v1/traces": "/v1/otlp/v1/traces",
};

const PATTERNS: readonly [pattern: RegExp, route: string][] = [
  // The name of an adapter may stand behind a colon too: the last one counts.
  [
    /^(\/v1beta\/models\/[^/]+):(generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/,
    "$1/$2",
  ],
  [/^(\/v1\/evals\/[^/]+\/runs\/[^/]+)\/cancel$/, "$1"], // newer clients of OpenAI
];

function routeFor(path: string): string | undefined {
  if (Object.hasOwn(ALIASES, path)) return ALIASES[path];
  const [pattern, route] = PATTERNS.find(([each]) => each.test(path)) ?? [];
  return pattern && route && path.replace(pattern, route);
}

/** Pages of the dashboard with the address of an alias. A browser that opens one gets the page. */
const PAGES: readonly string[] = ["/models"];

const opensPage = ({ method, headers }: Request, path: string) =>
  PAGES.includes(path) && method === "GET" && headers.get("accept")?.includes("text/html") === true;

export function followAlias(request: Request) {
  const path = pathOf(request);
  if (opensPage(request, path)) return;
  const route = routeFor(path);
  if (route === undefined) return;
  stateOf(request).isOfLlama = !path.startsWith("/v1/") && clientFormatOf(route) === "openai";
  moveTo(request, route);
}

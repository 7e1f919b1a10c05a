type WithCors = (request: Request, response: Response) => Response;

const ALLOWED = [
  ...["authorization", "content-type", "idempotency-key", "last-event-id", "user-agent"],
  ...["x-api-key", "api-key", "x-conversation-id", "x-request-id", "x-client-request-id", "traceparent", "tracestate"],
];
/** Headers by which the SDKs of other servers describe themselves. Their next versions will send more of them. */
const OF_SDKS = /^(?:x-stainless|x-goog|openai|anthropic|x-langfuse)-[a-z0-9-]{1,60}$/;
const MOST_OF_SDKS = 32;

function allowedFor(request: Request): string {
  const wanted = (request.headers.get("access-control-request-headers") ?? "").toLowerCase().split(/[\s,]+/, 200);
  return [...ALLOWED, ...wanted.filter((name) => OF_SDKS.test(name)).slice(0, MOST_OF_SDKS)].join(", ");
}

const EXPOSED = [...["x-request-id", "request-id", "x-trace-id", "retry-after", "idempotent-replayed", "warning"]].join(
  ", ",
);

/** Pages that this machine serves itself, on any port. */
const LOCAL = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/** True for a page that `http.cors_origins` names. */
export const allowsOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes("*") || origins.includes(origin) || (origins.includes("localhost") && LOCAL.test(origin));

/** Off unless `http.cors_origins` names origins (`*` = any). Keys travel in headers, so credentials are never allowed. */
export function cors(origins: readonly string[]): WithCors {
  if (origins.length === 0) return (_request, response) => response;
  return (request, response) => {
    const origin = request.headers.get("origin");
    if (origin === null || !allowsOrigin(origins, origin)) return response;
    const preflight = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
    const answer = preflight ? new Response(null, { status: 204 }) : response;
    answer.headers.set("access-control-allow-origin", origin);
    answer.headers.set("access-control-expose-headers", EXPOSED);
    answer.headers.append("vary", "origin");
    if (preflight) {
      answer.headers.set("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
      answer.headers.set("access-control-allow-headers", allowedFor(request));
      answer.headers.set("access-control-max-age", "600");
    }
    return answer;
  };
}

type WithCors = (request: Request, response: Response) => Response;

const ALLOWED =
  "authorization, content-type, idempotency-key, last-event-id, x-api-key, x-conversation-id, x-request-id, anthropic-version, anthropic-beta";

/** Pages that this machine serves itself, on any port. */
const LOCAL = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/;

/** Off unless `http.cors_origins` names origins (`*` = any). Keys travel in headers, so credentials are never allowed. */
export function cors(origins: readonly string[]): WithCors {
  if (origins.length === 0) return (_request, response) => response;
  const local = origins.includes("localhost");
  return (request, response) => {
    const origin = request.headers.get("origin");
    if (origin === null || !(origins.includes("*") || origins.includes(origin) || (local && LOCAL.test(origin))))
      return response;
    const preflight = request.method === "OPTIONS" && request.headers.has("access-control-request-method");
    const answer = preflight ? new Response(null, { status: 204 }) : response;
    answer.headers.set("access-control-allow-origin", origin);
    answer.headers.set("access-control-expose-headers", "x-request-id, retry-after, idempotent-replayed, warning");
    answer.headers.append("vary", "origin");
    if (preflight) {
      answer.headers.set("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
      answer.headers.set("access-control-allow-headers", ALLOWED);
      answer.headers.set("access-control-max-age", "600");
    }
    return answer;
  };
}

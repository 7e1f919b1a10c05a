import { pathOf } from "../lib/net/request_target.ts";
import type { Log } from "../platform/log.ts";
import { requestIdOf, stateOf } from "./request_state.ts";

/** Path only: a query may hold a signed URL's signature or a setup token. */
export function logRequest(log: Log, request: Request, status: number) {
  if (log.level !== "debug") return;
  log.debug("request", {
    request_id: requestIdOf(request),
    method: request.method,
    path: pathOf(request),
    status,
    ms: Math.round((performance.now() - stateOf(request).startedAt) * 100) / 100,
  });
}

import type { Log } from "../platform/log.ts";

const ID = Symbol("request id");
type Tagged = Request & { [ID]?: string };
const FROM_CLIENT = /^[\w.:-]{1,64}$/;

/** The id under which this request is logged and answered; a sane one from the client is kept. */
export function requestIdOf(request: Tagged): string {
  request[ID] ??= choose(request);
  return request[ID];
}

/** The same, for the one who asks last: most requests are asked for it only once, and keeping it has a price. */
export const lastRequestIdOf = (request: Tagged): string => request[ID] ?? choose(request);

function choose(request: Request): string {
  const given = request.headers.get("x-request-id");
  return given !== null && FROM_CLIENT.test(given) ? given : crypto.randomUUID();
}

/** Path only: a query may hold a signed URL's signature or a setup token. */
export function logRequest(log: Log, request: Request, id: string, status: number, startedAt: number) {
  if (log.level !== "debug") return;
  log.debug("request", {
    request_id: id,
    method: request.method,
    path: pathOf(request.url),
    status,
    ms: Math.round((performance.now() - startedAt) * 100) / 100,
  });
}

/** The path of an absolute URL without building a URL object. */
export function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return "/";
  const end = url.indexOf("?", start);
  return end < 0 ? url.slice(start) : url.slice(start, end);
}

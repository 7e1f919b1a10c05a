/**
 * The one reader of a request's address. Routing, keys, the audit log, metrics, limits and error formats all take the
 * path and the query from here; `test/meta/request_target.test.ts` forbids `request.url` elsewhere. Elysia's router reads the same
 * text, and `test/http/request_target.test.ts` holds both together.
 *
 * Bun's HTTP parser changes the text before any code of ours runs: it drops the scheme and host of an absolute target
 * (the Host header counts), turns a backslash of the path into a slash, and resolves `.` and `..`, also as `%2e`.
 * NOT covered: the text as it was sent cannot be read, so such targets are served as the path that they become.
 */
import { AppError } from "../errors.ts";

type Addressed = Pick<Request, "url">;

/** The indices at which the path begins and ends, without building a URL object. */
function boundsOf(url: string): [start: number, end: number] {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  if (start < 0) return [url.length, url.length];
  const query = url.indexOf("?", start);
  return [start, query < 0 ? url.length : query];
}

/** The path as sent, without one final slash: the router takes `/v1/jobs/` for `/v1/jobs`. It is not decoded. */
export function pathOf({ url }: Addressed): string {
  const [start, end] = boundsOf(url);
  if (end - start < 2) return "/";
  return url.slice(start, url.charCodeAt(end - 1) === 0x2f ? end - 1 : end);
}

export function queryOf({ url }: Addressed): URLSearchParams {
  const [, end] = boundsOf(url);
  return new URLSearchParams(url.slice(end));
}

/** Scheme, host and port as the caller named them. Judge the host before it is used in a link: see http/host.ts. */
export const urlOf = ({ url }: Addressed): URL => new URL(url);

/** True over TLS to this server itself. */
export const isOverTls = ({ url }: Addressed): boolean => url.startsWith("https:");

/** False: Bun could not read the Host header, and the address is no address. */
export const isAbsolute = ({ url }: Addressed): boolean => url.startsWith("http://") || url.startsWith("https://");

/** The request is served as one for another path, with its query. */
export function moveTo(request: Addressed, path: string) {
  const { url } = request;
  const [start, end] = boundsOf(url);
  Object.defineProperty(request, "url", { value: `${url.slice(0, start)}${path}${url.slice(end)}` });
}

/** Refuses targets that two readers could take for two paths. */
export function requirePlainTarget(request: Addressed) {
  const { url } = request;
  if (url.includes("#"))
    throw new AppError("invalid_request", "The address has a fragment (#): send the path and the query only");
  if (url.includes("%") && !isDecodable(pathOf(request)))
    throw new AppError("route_not_found", "The path is not valid percent-encoded UTF-8");
}

function isDecodable(path: string): boolean {
  try {
    return !decodeURIComponent(path).includes("\0");
  } catch {
    return false;
  }
}

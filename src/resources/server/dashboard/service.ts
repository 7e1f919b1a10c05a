import type { Ctx } from "../../../context.ts";
import { loadBundle } from "./bundle.ts";

/** Pages load code and styles from this server alone, and never run text as code. */
const POLICY = [
  "default-src 'none'",
  ...["script", "style", "connect", "font"].map((kind) => `${kind}-src 'self'`),
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  ...["base-uri", "form-action", "frame-ancestors"].map((kind) => `${kind} 'none'`),
].join("; ");

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": POLICY,
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

export const bundleOf = ({ state }: Ctx) => {
  state.dashboard.bundle ??= loadBundle();
  return state.dashboard.bundle;
};

/** Addresses of the interfaces: an unknown one answers with an error, never with a page. */
const INTERFACES = /^\/(?:v1|api|assets|docs|metrics|healthz|readyz|version|openapi\.json)(?:\/|$)/;

/**
 * The page of the dashboard, for every address that a browser opens and no route has. It needs no key: it has no data. Other
 * programs that ask for the root are clients of Ollama, which look whether the server runs.
 */
export const pageFor = (ctx: Ctx) => (request: Request, path: string) => {
  const { method } = request;
  const isForBrowser = request.headers.get("accept")?.includes("text/html") === true;
  if (method === "GET" && isForBrowser) return INTERFACES.test(path) ? undefined : indexPage(ctx);
  return path === "/" && (method === "GET" || method === "HEAD") ? aliveLine() : undefined;
};

const aliveLine = async () =>
  new Response("Ollama is running", { headers: { "content-type": "text/plain; charset=utf-8", vary: "accept" } });

export const indexPage = async (ctx: Ctx): Promise<Response> =>
  new Response((await bundleOf(ctx)).index, { headers: HEADERS });

export const referencePage = async (ctx: Ctx): Promise<Response> =>
  new Response((await bundleOf(ctx)).reference, { headers: HEADERS });

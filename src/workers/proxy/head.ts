/** Reads the head of a request to an HTTP proxy: `CONNECT host:port`, or a method with a whole URL. */

/** `url`: what the guard judges. `forward`: bytes for the server; empty for a tunnel. */
export type ProxyRequest = { url: string; isTunnel: boolean; forward: string };

const REQUEST_LINE = /^([A-Z]{1,20}) (\S{1,8000}) HTTP\/1\.[01]$/;
const AUTHORITY = /^[^/?#@\s]{1,300}:\d{1,5}$/;
/** For the proxy alone, or replaced. */
const DROPPED = new Set(["connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"]);

/** `head`: without the empty line at its end. Undefined if it is not a request to a proxy. */
export function parseHead(head: string): ProxyRequest | undefined {
  const [first = "", ...lines] = head.split("\r\n");
  const [, method, target = ""] = REQUEST_LINE.exec(first) ?? [];
  if (method === undefined || lines.some((line) => /[\r\n\0]/.test(line))) return undefined;
  if (method === "CONNECT")
    return AUTHORITY.test(target) ? { url: `https://${target}/`, isTunnel: true, forward: "" } : undefined;
  if (!/^http:\/\//i.test(target) || !URL.canParse(target)) return undefined;
  const { host, pathname, search } = new URL(target);
  const passed = lines.filter((line) => !DROPPED.has(line.split(":", 1)[0]?.trim().toLowerCase() ?? ""));
  const sent = [`${method} ${pathname}${search} HTTP/1.1`, `host: ${host}`, ...passed, "connection: close"];
  return { url: target, isTunnel: false, forward: `${sent.join("\r\n")}\r\n\r\n` };
}

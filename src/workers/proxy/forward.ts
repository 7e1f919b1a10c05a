/** Serves one connection of the jail: reads the request, asks the guard, connects, and passes bytes both ways. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { formatIp } from "../../lib/net/ip.ts";
import { SECOND_MS } from "../../lib/units.ts";
import { DialError, judgeUrl, type Policy, resolveChecked, unmapped } from "../../platform/network/address.ts";
import { type ProxyRequest, parseHead } from "./head.ts";

const MOST_HEAD_BYTES = 32_768;
const HEAD_MS = 30 * SECOND_MS;
const IDLE_MS = 900 * SECOND_MS;
const HEAD_END = "\r\n\r\n";

export type Forwarding = {
  policy: Policy;
  connectMs: number;
  /** Counts bytes. False: the run has used up its traffic. */
  count: (direction: "sent" | "received", bytes: number) => boolean;
  onConnected: () => void;
  onRefused: (host: string, reason: string, detail?: string) => void;
};

const TOO_MUCH = "The run has used up its traffic (custom_jobs.network_mib)";
const MALFORMED = "This is an HTTP proxy: send CONNECT host:port, or a method with a whole http:// URL";
const ADVICE = "The operator can allow an address with network.allow or network.allow_private";

class Refusal extends Error {
  constructor(
    readonly status: "400 Bad Request" | "403 Forbidden" | "502 Bad Gateway" | "504 Gateway Timeout",
    message: string,
  ) {
    super(message);
  }
}

export async function serveConnection(inside: Socket, forwarding: Forwarding): Promise<void> {
  inside.on("error", () => inside.destroy());
  let outside: Socket | undefined;
  try {
    const { head, rest } = await readHead(inside);
    const request = parseHead(head);
    if (!request) throw new Refusal("400 Bad Request", MALFORMED);
    if (!forwarding.count("sent", 0)) throw new Refusal("403 Forbidden", TOO_MUCH);
    outside = await open(request, forwarding);
    join(inside, outside, forwarding);
    if (request.isTunnel) inside.write("HTTP/1.1 200 Connection established\r\n\r\n");
    const first = Buffer.concat([Buffer.from(request.forward, "latin1"), rest]);
    if (first.length > 0 && forwarding.count("sent", first.length)) outside.write(first);
  } catch (error) {
    outside?.destroy();
    if (!(error instanceof Refusal)) return void inside.destroy();
    const body = `${error.message}\n`;
    const fields = `content-type: text/plain\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close`;
    inside.end(`HTTP/1.1 ${error.status}\r\n${fields}\r\n\r\n${body}`);
  }
}

/** `rest`: bytes after the head, which came with it. */
async function readHead(socket: Socket): Promise<{ head: string; rest: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ head: string; rest: Buffer }>();
  let bytes = Buffer.alloc(0);
  const timer = setTimeout(() => reject(new Error("no request")), HEAD_MS);
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    const end = bytes.indexOf(HEAD_END);
    if (end >= 0) {
      socket.pause();
      resolve({ head: bytes.toString("latin1", 0, end), rest: bytes.subarray(end + HEAD_END.length) });
    } else if (bytes.length > MOST_HEAD_BYTES) reject(new Refusal("400 Bad Request", MALFORMED));
  };
  const onEnd = () => reject(new Error("the connection ended"));
  socket.on("data", onData).once("end", onEnd).once("close", onEnd);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    socket.off("data", onData).off("end", onEnd).off("close", onEnd);
  }
}

/** Connects to an address that the guard has checked. */
async function open({ url }: ProxyRequest, { policy, connectMs, onConnected, onRefused }: Forwarding) {
  if (!URL.canParse(url)) throw new Refusal("400 Bad Request", MALFORMED);
  const parsed = new URL(url);
  const port = Number(parsed.port || (parsed.protocol === "https:" ? 443 : 80));
  const shown = `${parsed.hostname}:${port}`.slice(0, 300);
  const verdict = judgeUrl(url, policy, { allowHttp: true });
  const refuse = (reason: string, detail?: string) => {
    onRefused(shown, reason, detail);
    return new Refusal("403 Forbidden", `${shown}: ${reason}. ${ADVICE}`);
  };
  if (!verdict.allowed) throw refuse(verdict.reason);
  const { literal, host } = verdict;
  let addresses: readonly string[];
  try {
    addresses = literal ? [formatIp(unmapped(literal))] : await resolveChecked(host, policy);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    if (error.code === "address_refused") throw refuse(error.message, error.detail?.slice(0, 300));
    throw new Refusal("502 Bad Gateway", error.message);
  }
  for (const address of addresses) {
    const socket = await connected(address, port, connectMs);
    if (!socket) continue;
    onConnected();
    return socket;
  }
  throw new Refusal("504 Gateway Timeout", `${shown} cannot be reached`);
}

async function connected(host: string, port: number, ms: number): Promise<Socket | undefined> {
  const socket = connect({ host, port, allowHalfOpen: true });
  socket.on("error", () => socket.destroy());
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(ms) });
    socket.setNoDelay(true);
    return socket;
  } catch {
    socket.destroy();
    return undefined;
  }
}

function join(inside: Socket, outside: Socket, { count }: Forwarding) {
  const end = () => {
    inside.destroy();
    outside.destroy();
  };
  const pass = (from: Socket, to: Socket, direction: "sent" | "received") => {
    from.on("data", (chunk: Buffer) => {
      if (!count(direction, chunk.length)) end();
      else if (!to.write(chunk)) from.pause();
    });
    to.on("drain", () => from.resume());
    from.on("end", () => to.end());
    from.on("close", () => (from.errored ? to.destroy() : to.end()));
    from.setTimeout(IDLE_MS, end);
    from.resume();
  };
  pass(inside, outside, "sent");
  pass(outside, inside, "received");
}

/**
 * Sends requests over kept connections, the next on each when the answer of the last is whole, and prints a `Load` as
 * JSON. Plain sockets, so that one core sends more than a server can answer. `{n}` in a body becomes a number that counts
 * up. argv: a `LoadRequest` as JSON.
 */
import type { Load, LoadRequest } from "../tools.ts";

const request = JSON.parse(process.argv[2] ?? "") as LoadRequest;
const { connections, seconds, method, headers, body } = request;
const url = new URL(request.url);
const head = [
  `${method} ${url.pathname}${url.search} HTTP/1.1`,
  `host: ${url.host}`,
  ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
].join("\r\n");

const latencies: number[] = [];
let sentCount = 0;
let bad = 0;
let until = Number.POSITIVE_INFINITY;

type Connection = { begunAt: number; answer: Buffer | undefined };

function nextRequest(): string {
  sentCount++;
  if (body === undefined) return `${head}\r\n\r\n`;
  const text = body.replace("{n}", String(sentCount));
  return `${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

/** The length of the answer with its head; undefined: its head is not whole. */
function lengthOf(answer: Buffer): number | undefined {
  const end = answer.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = /\r\ncontent-length: *(\d+)/i.exec(answer.toString("latin1", 0, end))?.[1];
  if (length === undefined) throw new Error(`an answer of ${url} has no content-length`);
  return end + 4 + Number(length);
}

const over = Promise.withResolvers<void>();
let open = connections;

function send(socket: Bun.Socket<Connection>) {
  if (performance.now() >= until) {
    socket.end();
    if (--open === 0) over.resolve();
    return;
  }
  socket.data.begunAt = performance.now();
  socket.write(nextRequest());
}

const begunAt = performance.now();
until = begunAt + 1000 * seconds;
for (let i = 0; i < connections; i++)
  await Bun.connect<Connection>({
    hostname: url.hostname,
    port: Number(url.port),
    data: { begunAt: 0, answer: undefined },
    socket: {
      open: send,
      data(socket, bytes) {
        const { data } = socket;
        const answer = data.answer ? Buffer.concat([data.answer, bytes]) : bytes;
        const length = lengthOf(answer);
        data.answer = length !== undefined && answer.length >= length ? undefined : Buffer.from(answer);
        if (data.answer) return;
        latencies.push(performance.now() - data.begunAt);
        if (!/^HTTP\/1\.1 [23]/.test(answer.toString("latin1", 0, 10))) bad++;
        send(socket);
      },
      close() {
        if (performance.now() >= until) return;
        console.error(`${url} closed a connection`);
        process.exit(1);
      },
    },
  });
await over.promise;
const lastedSeconds = (performance.now() - begunAt) / 1000;
latencies.sort((a, b) => a - b);
const at = (share: number) => latencies[Math.floor(latencies.length * share)] ?? Number.NaN;
const load: Load = { perSecond: latencies.length / lastedSeconds, p50Ms: at(0.5), p99Ms: at(0.99), bad };
console.log(JSON.stringify(load));
process.exit(0);

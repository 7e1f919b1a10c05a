/**
 * Requests as bytes on the wire: of an operation of the document, with what is wrong in framing, headers, path or body.
 */
import { bodyFrom, type Schema, type Schemas, textOf } from "./request_bodies.ts";
import { type Chance, chanceFrom, textFrom } from "./request_random.ts";

type Operation = { requestBody?: { content?: Record<string, { schema?: Schema }> } };
export type Document = { paths: Record<string, Record<string, Operation>>; components: { schemas: Schemas } };

/** Real ids of things that may break, by the name of what they are. */
export type World = { keys: readonly string[]; ids: readonly string[] };
export type Made = { name: string; bytes: Buffer };

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "X", "PRI"];
const TYPES = ["application/json", "application/x-ndjson", "text/plain", "multipart/form-data; boundary=x", "x", ""];
const HEADERS = [
  "idempotency-key",
  "last-event-id",
  "range",
  "if-none-match",
  "if-range",
  "x-request-id",
  "x-forwarded-for",
  "content-encoding",
  "expect",
  "cookie",
  "origin",
  "accept",
  "connection",
  "upgrade",
  "x-verk-request",
  "transfer-encoding",
];
const HOSTS = ["127.0.0.1", "localhost:1", "x/", "a b", "", "[::1]", "x?y", "a\r\nHost: b", "%41"];

export function makerOf(document: Document, world: World, seed: number): (index: number) => Made {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  return (index) => {
    const chance = chanceFrom(Math.imul(seed, 1_000_003) + index);
    const { one, rarely } = chance;
    const { method, path, operation } = one(operations);
    const target = targetFrom(path, world, chance);
    const body = payloadFrom(operation, document.components.schemas, chance);
    const verb = rarely(30) ? one(METHODS) : method;
    return { name: `${method} ${path}`, bytes: framed(verb, target, body, world, chance) };
  };
}

function targetFrom(path: string, { ids }: World, chance: Chance): string {
  const { one, rarely, below } = chance;
  const part = () => (rarely(3) ? encodeURIComponent(textFrom(chance).slice(0, 200).toWellFormed()) : one(ids));
  let target = path.replaceAll(/\{\w+\}/g, part);
  if (rarely(3)) {
    const names = [
      "limit",
      "after",
      "types",
      "stream",
      "tail",
      "from_step",
      "format",
      "key_id",
      "expected_head_row",
      "x",
    ];
    // `stream=1` would stay open: the fuzzer waits for whole answers only a moment.
    const pairs = chance.times(
      3,
      () => `${one(names)}=${encodeURIComponent(textFrom(chance).slice(0, 80).toWellFormed())}`,
    );
    target += `?${pairs.join("&")}`;
  }
  if (rarely(25))
    target = one([
      () => `${target}/../x`,
      () => target.replace("/v1", "//v1"),
      () => `http://evil${target}`,
      () => `${target}%`,
      () => `${target}%00`,
      () => `${target}${"a".repeat(below(20_000))}`,
      () => target.replaceAll("/", "%2f"),
      () => `${target}#x`,
      () => "*",
    ])();
  return target;
}

function payloadFrom({ requestBody }: Operation, schemas: Schemas, chance: Chance): Buffer | undefined {
  const schema = requestBody?.content?.["application/json"]?.schema;
  if (schema) return textOf(bodyFrom(schema, schemas, chance), chance);
  if (!requestBody && !chance.rarely(20)) return undefined;
  return Buffer.from(textFrom(chance));
}

function framed(method: string, target: string, body: Buffer | undefined, world: World, chance: Chance): Buffer {
  const { one, rarely, times, below } = chance;
  const key = rarely(10)
    ? textFrom(chance)
        .replaceAll(/[\r\n\0]/g, "")
        .slice(0, 200)
    : one(world.keys);
  const lines = [
    `${method} ${target} HTTP/${rarely(60) ? one(["1.0", "0.9", "2.0", "1.10", "x"]) : "1.1"}`,
    ...(rarely(60) ? [] : [`Host: ${rarely(30) ? one(HOSTS) : "127.0.0.1"}`]),
    ...(rarely(15) ? [] : [`Authorization: ${rarely(15) ? one(["Basic x", "Bearer", ""]) : `Bearer ${key}`}`]),
    `X-API-Key: ${key}`,
    ...(body || rarely(20) ? [`Content-Type: ${rarely(10) ? one(TYPES) : "application/json"}`] : []),
    ...(rarely(5)
      ? times(
          3,
          () =>
            `${one(HEADERS)}: ${textFrom(chance)
              .replaceAll(/[\r\n\0]/g, "")
              .slice(0, 5_000)}`,
        )
      : []),
    ...(rarely(200) ? [`x: ${"y".repeat(below(100_000))}`] : []),
  ];
  if (!rarely(25)) lines.push("Connection: close");
  const head = (...more: string[]) => Buffer.from(`${[...lines, ...more].join("\r\n")}\r\n\r\n`, "latin1");
  if (!body) return head();
  const length = String(body.length);
  if (!rarely(12)) return Buffer.concat([head(`Content-Length: ${length}`), body]);
  return one([
    () => Buffer.concat([head(), body]),
    () => Buffer.concat([head(`Content-Length: ${one(["-1", "x", "1e3", "", "99999999999999999999", "0"])}`), body]),
    () => Buffer.concat([head(`Content-Length: ${body.length + 1 + below(100)}`), body]),
    () => Buffer.concat([head(`Content-Length: ${length}`, "Content-Length: 1"), body]),
    () => Buffer.concat([head(`Content-Length: ${length}`, "Transfer-Encoding: chunked"), chunked(body, chance)]),
    () => Buffer.concat([head("Transfer-Encoding: chunked"), chunked(body, chance)]),
    () => Buffer.concat([head("Transfer-Encoding: chunked"), chunked(body, chance).subarray(0, -3)]),
    () => Buffer.concat([head("Transfer-Encoding: chunked"), Buffer.from("fffffffffffffffff\r\nx")]),
    () => Buffer.concat([head(`Content-Length: ${length}`), body, head(), Buffer.from("\0\0\0")]),
    () => head().subarray(0, -2 - below(4)),
  ])();
}

function chunked(body: Buffer, { below }: Chance): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const part = body.subarray(at, at + 1 + below(1_000));
    at += part.length;
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

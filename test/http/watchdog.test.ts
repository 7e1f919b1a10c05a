// tier: all (many seconds)
/** No request stalls the server: another client gets its answers during the largest hostile bodies of each route. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { permutation } from "../../src/lib/random.ts";
import { IS_FULL, randomFor, sampleOf, sweep } from "../sweep.ts";
import { hostileBodies, type Room } from "./hostile.ts";
import type { Watch } from "./pinger.ts";
import { type Guarded, guardedServer, MOST_CPU_MS } from "./watchdog_kit.ts";

const MIB = 1 << 20;

type Schema = { $ref?: string; properties?: Record<string, Schema> };
type Operation = { requestBody?: { content?: Record<string, { schema?: Schema }> } };
type Document = { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema> } };

let server: Guarded;
let document: Document;
beforeAll(async () => {
  server = await guardedServer();
  document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
}, 60_000);
afterAll(() => server?.close());

const LONG_TEXT = `{"watchdog":"${"x".repeat(10 * MIB)}"}`;

/** The most that this route takes, as its refusals say. */
async function roomOf(method: string, path: string): Promise<Room> {
  const told = async (body: string, pattern: RegExp) =>
    Number(pattern.exec((await server.send(method, path, body)).text)?.[1]);
  const bytes = (await told(LONG_TEXT, /larger than (\d+) bytes/)) || 10 * MIB;
  const most = Math.min(bytes, 10 * MIB);
  const zeros = `{"watchdog":[${"0,".repeat(Math.floor((most - 20) / 2))}0]}`;
  return { bytes: most, values: (await told(zeros, /more than (\d+) values/)) || 1e9 };
}

function fieldsOf({ requestBody }: Operation): string[] {
  const found = requestBody?.content?.["application/json"]?.schema ?? {};
  const schema = found.$ref ? document.components.schemas[found.$ref.split("/").at(-1) ?? ""] : found;
  return Object.keys(schema?.properties ?? {});
}

const random = randomFor("fields of hostile bodies");

/** One field in a quick run, another one each time; all of them in a full run. */
function someFields(fields: readonly string[]): readonly string[] {
  if (IS_FULL) return fields;
  return [...permutation(fields.length, random).slice(0, 1)].map((at) => fields[at]!);
}

const writing = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => method !== "get" && method !== "head")
      .map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

test("H1: the largest hostile bodies to every route do not delay other requests", async () => {
  const { send, watched } = server;
  const dataset = JSON.parse((await send("POST", "/v1/datasets", '{"name":"watchdog","format":"prompt"}')).text)
    .id as string;
  const stalls: string[] = [];
  let sent = 0;
  for (const { method, path: pattern, operation } of sampleOf("watchdog", writing(), 0.4)) {
    const path = pattern.replace("/datasets/{id}/", `/datasets/${dataset}/`).replaceAll(/\{\w+\}/g, "x");
    const judge = (name: string, { longestCpuMs, answers }: Watch) => {
      if (longestCpuMs <= MOST_CPU_MS && answers > 0) return;
      stalls.push(`${method} ${pattern}, ${name}: ${Math.round(longestCpuMs)} ms, ${answers} answers`);
    };
    await watched();
    const room = await roomOf(method, path);
    judge("the probe of its limits", await watched());
    const bodies = operation.requestBody ? hostileBodies(fieldsOf(operation), someFields, room) : [];
    for (const { name, body } of bodies) {
      const { status } = await send(method, path, body);
      expect([pattern, name, status]).not.toEqual([pattern, name, 500]);
      judge(name, await watched());
      sent++;
    }
    expect(stalls).toEqual([]);
  }
  expect(sent).toBeGreaterThan(sweep({ quick: 200, full: 1_000 }));
}, 600_000);

/** Every operation of the document, on the executable: no 500, every failure in its form with the field that is wrong. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { clientFormatOf } from "../../src/http/answer/client_errors.ts";
import { isServicePath } from "../../src/http/answer/service_errors.ts";
import { openapi } from "../../src/http/openapi.ts";
import { openRandom } from "../../src/lib/random.ts";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { conforms } from "../conformance.ts";
import { type TestApp, tempDir, testApp } from "../harness.ts";
import { seedFor, sweep } from "../sweep.ts";
import { type Call, type Document, openWalk } from "./walk.ts";
import { openWorld, type Server } from "./world.ts";

const COUNT = sweep({ quick: 3_000, full: 50_000 });
const AT_ONCE = 8;
const seed = seedFor("contract");
const STATUS_OF: Record<string, readonly number[]> = {
  invalid_request_error: [400, 404, 405, 415, 416], // 404: an unknown model, as OpenAI answers it
  authentication_error: [401],
  billing_error: [402],
  permission_error: [403],
  not_found_error: [404],
  conflict_error: [409],
  payload_too_large: [413],
  request_too_large: [413],
  overloaded_error: [503],
  validation_error: [422],
  rate_limit_error: [429],
  api_error: [500, 502],
  service_unavailable: [503],
};

let server: Server;
let app: TestApp;
let walk: ReturnType<typeof openWalk>;
beforeAll(async () => {
  app = testApp();
  const env = { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", VERK_OFFLINE: "true", VERK_NETWORK__ALLOW: "127.0.0.1" };
  const dir = tempDir();
  server = await startBinary({ dir, env, key: (await makeKey(dir, "--scope", "admin")).key });
  walk = openWalk(openapi(await app.handle.routes()) as Document, await openWorld(server));
}, 60_000);
afterAll(async () => {
  await server.kill();
  rmSync(server.dir, { recursive: true, force: true });
  await app.close().then(app.remove);
});

/** The problem of the answer; undefined if there is none. */
async function judge(call: Call): Promise<string | undefined> {
  const { status, body, text, headers } = await server.call(call.method, call.path, call.body);
  if (headers.get("x-content-type-options") !== "nosniff") return `${status} without nosniff`;
  if (status === 500) return `500 ${text.slice(0, 300)}`;
  if (headers.get("content-type")?.startsWith("application/json")) {
    try {
      conforms(await app.handle.routes(), call.method, call.path, status, body);
    } catch (error) {
      return (error as Error).message.slice(0, 600);
    }
  }
  const where = call.path.split("?")[0] ?? "";
  if (isServicePath(where) || ["ollama", "google"].includes(clientFormatOf(where) ?? ""))
    return call.wrong && status < 300 ? `${status} although a field is wrong` : undefined;
  const { type, param, message } = (body as { error?: Record<string, string> }).error ?? {};
  if (status >= 400 && !STATUS_OF[type ?? ""]?.includes(status)) return `${status} with the type ${type}`;
  if (!call.wrong) return undefined;
  const { valid, errors } = body as { valid?: boolean; errors?: { param: string }[] };
  if (valid === false && errors?.some((each) => isAt(each.param, call.wrong?.params ?? []))) return undefined;
  if (status < 300) return `${status} although a field is wrong`;
  return status === 422 && !isAt(param, call.wrong.params)
    ? `the error names ${param}, not ${call.wrong.params[0]}: ${message}`
    : undefined;
}

/** The field itself or something in it. */
const isAt = (param: string | undefined, fields: readonly string[]) =>
  fields.some((field) => param === field || param?.startsWith(`${field}/`));

const shown = ({ operation, path, body, wrong }: Call) =>
  `${operation}${wrong ? `, ${wrong.params[0]} ${wrong.what}` : ""}\n    ${path} ${JSON.stringify(body)?.slice(0, 300)}`;

test("every operation has a call that no schema refuses", async () => {
  const refused: string[] = [];
  for (const name of walk.operations) {
    const call = walk.validOf(name);
    const { status, text } = await server.call(call.method, call.path, call.body);
    if ((status === 422 && !name.startsWith("POST /v1/ssh_keys")) || status >= 500)
      refused.push(`${name}: ${text.slice(0, 300)}`);
  }
  expect(refused).toEqual([]);
}, 60_000);

test(`${COUNT} calls with right, borderline and wrong values match the contract`, async () => {
  const random = openRandom(seed);
  const findings = new Map<string, string>();
  let left = COUNT;
  const caller = async () => {
    while (left > 0) {
      const call = walk.callFor(random, left--);
      const problem = await judge(call);
      const what = `${call.operation} ${call.wrong?.params[0] ?? ""} ${problem?.slice(0, 60)}`;
      if (problem !== undefined && !findings.has(what)) findings.set(what, `${problem}\n  ${shown(call)}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, caller));
  expect([...findings.values()].slice(0, 60)).toEqual([]);
  expect(server.child.exitCode).toBeNull();
}, 1_800_000);

// tier: all (whole paths on the executable)
/** `kill -9` of the server and of the converting process while a model of several files is pulled. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { startFakeHub } from "../fake_hub.ts";
import { tempDir, until } from "../harness.ts";
import { writeFolder } from "../hugging_face.ts";
import { isAlive } from "./supervisor_kit.ts";

const source = tempDir();
writeFolder(source, { dtype: "BF16", shards: 3 });
const files = Object.fromEntries(readdirSync(source).map((name) => [name, readFileSync(join(source, name))]));
const hub = startFakeHub({ "acme/tiny": { files } });
afterAll(() => hub.stop());

const dir = tempDir();
const open = (key?: string) =>
  startBinary({
    dir,
    env: { VERK_NETWORK__ALLOW: "127.0.0.1", VERK_HUB__ENDPOINT: hub.url },
    ...(key === undefined ? {} : { key }),
  });
type Server = Awaited<ReturnType<typeof open>>;

const list = (below: string) => (existsSync(join(dir, below)) ? readdirSync(join(dir, below)) : []);
const parked = () => ["models/.downloads", "models/.converting"].flatMap(list);
const statusOf = async (server: Server, id: string) => (await server.call("GET", `/v1/models/${id}`)).body.status;
const pull = async (server: Server, name: string): Promise<string> =>
  (await server.call("POST", "/v1/models/pull", { name })).body.id;

function converters(server: Server): number[] {
  const children = readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8").trim().split(" ");
  return children
    .filter((pid) => pid !== "" && existsSync(`/proc/${pid}/cmdline`))
    .filter((pid) => readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").includes("converter"))
    .map(Number);
}

test("a pull survives kill -9 of the server and of the conversion, and leaves nothing", async () => {
  const held = Promise.withResolvers<undefined>();
  hub.trouble = (_, request) => (request.url.includes("model-00002") ? held.promise : undefined);
  let server = await open();
  const key = await server.apiKey();
  const id = await pull(server, "acme/tiny");
  await until("the second shard to be requested", () => hub.requests.at(-1)?.path.includes("model-00002") === true);
  await server.kill("SIGKILL");
  held.resolve(undefined);
  expect(parked()).toHaveLength(1);
  hub.trouble = undefined;
  hub.requests.length = 0;
  server = await open(key);
  await until("the model", async () => (await statusOf(server, id)) === "ready");
  expect(hub.requests.some(({ path }) => path.includes("model-00001"))).toBe(false); // it was here
  expect(parked()).toEqual([]);

  const second = await pull(server, "acme/tiny:Q8_0");
  const victim = await until("a converting process", () => converters(server)[0]);
  process.kill(victim, "SIGKILL");
  await until("the second model", async () => (await statusOf(server, second)) === "ready");
  expect(parked()).toEqual([]);

  const third = await pull(server, "acme/tiny:Q4_K_M");
  const orphan = await until("another converting process", () => converters(server)[0]);
  await server.kill("SIGKILL");
  await until("the conversion to end with its server", () => !isAlive(orphan));
  server = await open(key);
  await until("the third model", async () => (await statusOf(server, third)) === "ready");
  expect(parked()).toEqual([]);
  expect(list("models/hub/acme/tiny")).toHaveLength(3);
  await server.kill("SIGTERM");
}, 120_000);

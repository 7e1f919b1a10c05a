import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { durable } from "../../src/platform/db/db.ts";
import { flush } from "../../src/resources/watching/traces/flush.ts";
import { type DetectingApp, detecting } from "../detection_kit.ts";
import type { TestApp } from "../harness.ts";
import { JOURNEY, type Step } from "../meta/journey.ts";

setDefaultTimeout(120_000);
let app: DetectingApp;
/** The same application in the eyes of workspace B, which is the attacker. */
let attacker: TestApp;
beforeAll(() => {
  app = detecting({ flags: { "network.allow": ["127.0.0.1"], "http.rate_limit_per_second": 0 } });
  const call: TestApp["call"] = (method, path, json, options = {}) =>
    app.call(method, path, json, { ...options, key: options.key === undefined ? app.keyB : options.key });
  attacker = { ...app, call, keyA: app.keyB, workspaceA: app.workspaceB };
});
afterAll(() => app.close().then(app.remove));
/** A reading without an answer would end by itself while a later route is attacked, and change rows of workspace A. */
afterEach(async () => {
  const begun = app.ctx.db.$client.query<{ id: string; dataset: string; workspace: string }, []>(
    `SELECT id, dataset_id AS dataset, workspace_id AS workspace FROM dataset_resolutions WHERE finished_at IS NULL`,
  );
  for (const { id, dataset, workspace } of begun.all()) {
    const key = workspace === app.workspaceA ? app.keyA : app.keyB;
    await app.call("POST", `/v1/datasets/${dataset}/resolutions/${id}/cancel`, undefined, { key });
  }
});

/** A line here says that another workspace may call the route with that id, and why. */
const OPEN_TO_OTHERS: Record<string, string> = {
  "ALL /{path}": "the fallback: a page without data, or an error",
  "GET /assets/{name}": "the dashboard's files, the same for everybody",
  "PUT /v1/secrets/{name}": "a name is the caller's own",
  "PUT /v1/models/{id}/uploads/{upload}": "needs no key but a signature: signed_addresses.test.ts",
  "PUT /v1/volumes/{name}/uploads/{id}": "likewise",
  "PUT /v1/volumes/{name}/uploads/{id}/parts/{number}": "likewise",
  "GET /v1/volumes/{name}/signed/{path}": "likewise",
  "GET /v1/training_jobs/{id}/exports/{export}": "likewise",
  "GET /v1/models/{id}/file": "likewise",
  "GET /docs/chapters/{name}": "the API reference, the same for everybody",
  "GET /v1/public/runs/{id}": "published for everybody",
  "POST /v1/public/runs/{id}/like": "likewise",
};
const isAdmins = (operation: string) => / \/v1\/(workspaces\/\{id\}|settings\/\{name\}$)/.test(operation);
const operations = async () =>
  (await app.handle.routes())
    .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}").replaceAll("/*", "/{path}")}`)
    .filter((name) => name.includes("{"));
const steps = JOURNEY.filter(({ operation, own }) => own && operation.includes("{")).filter(
  ({ operation }) => !(operation in OPEN_TO_OTHERS) && !isAdmins(operation),
);

test("every route with an id is attacked here, is for administrators, or is on the list of open routes", async () => {
  const attacked = new Set(steps.map(({ operation }) => operation));
  const rest = (await operations()).filter((name) => !attacked.has(name) && !isAdmins(name));
  expect([...new Set(rest)].sort()).toEqual(Object.keys(OPEN_TO_OTHERS).sort());
  expect(attacked.size).toBeGreaterThan(60);
});

/** Everything of workspace A that is in the database, but when its key was last used. */
async function victims(): Promise<string> {
  flush(app.ctx); // traces of the owner's own calls wait in a buffer
  await durable(app.ctx.db);
  const { $client } = app.ctx.db;
  const tables = $client.query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table'").all();
  const dump = tables
    .map(({ name }) => name)
    .filter((name) => name !== "api_keys")
    .filter((name) => $client.query(`SELECT 1 FROM pragma_table_info('${name}') WHERE name = 'workspace_id'`).get())
    .map((name) => [name, $client.query(`SELECT * FROM "${name}" WHERE workspace_id = ?`).all(app.workspaceA)]);
  return JSON.stringify(dump, (_, value) => (value instanceof Uint8Array ? Bun.hash(value).toString() : value));
}

type Names = Record<string, string>;
const bodyOf = async (step: Step, on: TestApp) => (await step.make?.(on)) ?? step.json;
async function attack(step: Step, names: Names, json: unknown, key = app.keyB) {
  const [method, template] = step.operation.split(" ") as [string, string];
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(names[name] ?? "missing"));
  const raw = step.body === undefined ? {} : { raw: step.body };
  return await app.call(method, path + (names["?"] ?? ""), json, { key, ...raw });
}
/** Objects that this machine cannot create, as it has no sandbox. They are not tested. */
const isMade = (step: Step, names: Names) =>
  [...step.operation.matchAll(/\{(\w+)\}/g)].every(([, name]) => names[name!] !== undefined);
const unmade = new Set<string>();

describe("with ids of another workspace", () => {
  test.each(steps.map((step) => [step.operation, step] as const))(
    "%s: 404, and nothing there changes",
    async (_, step) => {
      const names = await step.own!(app);
      if (!isMade(step, names)) return void unmade.add(step.operation);
      const json = await bodyOf(step, attacker);
      const before = await victims();
      const { status } = await attack(step, names, json);
      expect(status).toBe(404);
      expect(await victims()).toBe(before);
      const readable = await attack(step, names, json, app.keyOf("beta", ["read", "training", "inference"]).key);
      expect([403, 404]).toContain(readable.status);
      const owners = await attack(step, names, await bodyOf(step, app), app.keyA);
      expect(owners.status).toBeLessThan(300); // the id is real: the workspace is the wall
    },
  );

  const nested = steps.filter(({ operation }) => (operation.match(/\{\w+\}/g) ?? []).length > 1);
  test.each(nested.map((step) => [step.operation, step] as const))(
    "%s: 404 also under a parent of the caller's own workspace",
    async (_, step) => {
      const [theirs, own] = [await step.own!(app), await step.own!(attacker)];
      if (!isMade(step, theirs)) return void unmade.add(step.operation);
      const json = await bodyOf(step, attacker);
      const before = await victims();
      const [parent] = [...step.operation.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
      const mixed = { ...theirs, [parent!]: own[parent!]! };
      const { status } = await attack(step, mixed, json);
      // Under one's own parent a name such as a path or a snapshot's is one's own.
      const isName = Object.entries(theirs).every(
        ([name, value]) => name === parent || own[name] === value || name === "?",
      );
      expect([step.operation, isName ? status < 500 : status]).toEqual([step.operation, isName ? true : 404]);
      expect(await victims()).toBe(before);
    },
  );

  test("only objects that need a sandbox could not be made on this machine", () => {
    expect(
      [...unmade].filter((each) => !/ \/v1\/(sessions|containers|reward_functions|training_jobs)/.test(each)),
    ).toEqual([]);
  });
});

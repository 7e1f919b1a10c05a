import { expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { getTableColumns, getTableName, is } from "drizzle-orm";
import { SQLiteTable } from "drizzle-orm/sqlite-core";
import { SETTINGS } from "../../src/platform/config/schema.ts";
import { leaves } from "../../src/platform/config/walk.ts";
import { testApp } from "../harness.ts";
import { allImports, cycles, importsOf, ROOT, read, sources, valueImports } from "./imports.ts";

/** Ring → what it may import. What is absent is forbidden. A file may be named where the whole folder may not. */
const MAY: Record<string, string[]> = {
  lib: ["lib"],
  platform: ["lib", "platform"],
  events: ["lib", "platform", "events"],
  context: ["platform", "sandbox", "schedules"],
  http: ["lib", "platform", "http", "context"],
  native: ["lib", "native", "platform/files"],
  workers: [
    "lib",
    "native",
    "workers",
    "platform/log",
    "platform/files",
    "platform/network/address",
    "platform/network/http_client",
    "platform/rows",
    "platform/semaphore",
    "sandbox",
  ],
  sandbox: ["lib", "native", "platform", "sandbox"],
  resources: [
    "lib",
    "platform",
    "events",
    "http",
    "context",
    "workers/protocol",
    "workers/protocol_trainer",
    "workers/protocol_detector",
    "workers/protocol_inspector",
    "workers/protocol_importer",
    "workers/protocol_proxy",
    "sandbox",
  ],
  // the browser's code: of the server it knows only types
  dashboard: ["lib", "dashboard"],
  cli: [
    "lib",
    "platform",
    "cli",
    "app",
    "native/bundle/embedded",
    "native/platform",
    "sandbox",
    // `verk node` starts trainers and replicas as the server does
    "workers/protocol",
    "workers/protocol_trainer",
    "workers/protocol_inspector",
    "workers/protocol_proxy",
    // `verk detect` asks the detector as the server does, without the server
    "workers/protocol_detector",
    "resources/detection/adaptation",
    "resources/detection/policy",
    "resources/detection/schema",
    "resources/detection/worker",
  ],
};

/** Files of a resource that other resources may import, beside `service`, `table` and `schema`. */
const PUBLIC: Record<string, string[]> = {
  agents: ["apply", "listed", "tools/run"],
  api_keys: ["authenticate", "key_text"],
  billing: ["budget", "months", "run_time", "usage"],
  other_apis: [
    "batches/service",
    "completions/collect",
    "completions/storing",
    "evals/service",
    "files/service",
    "responses/service",
    "translated",
  ],
  clouds: ["key"],
  code_artifacts: ["unpack"],
  cost: ["charge", "history", "requests"],
  detection: ["pictures"],
  deployments: [
    "chat/answer",
    "chat/generate",
    "chat/infer",
    "chat/refusals",
    "checkpoint",
    "fleet/decoder_choice",
    "fleet/parts",
    "policy",
    "remote/placing",
    "served",
    "served_adapters",
    "temporary",
    "tuned",
  ],
  energy: ["watts"],
  evaluators: ["field", "item", "reward", "run"],
  datasets: [
    "connected/resolve",
    "stream/append",
    "stream/files",
    "stream/resolved",
    "stream/snapshots",
    "stream/upload",
  ],
  gpu: ["hardware"],
  models: ["hub/hub", "hub/name", "hub/token", "projector", "remove", "results", "template"],
  patterns: ["parse", "patterns"],
  people: ["policy"],
  regions: ["clouds", "provider"],
  reward_functions: ["check", "processes", "resolve", "run"],
  rollouts: ["record"],
  sessions: ["exec/exec", "prepare", "usable", "workspace/files"],
  statistics: ["agreement", "describe", "drift", "paired"],
  traces: ["new_trace", "rollouts"],
  training_jobs: [
    "artifacts/download",
    "artifacts/exports",
    "admission/create",
    "admission/create_schema",
    "artifacts/job_models",
    "state/rows",
  ],
  volumes: ["materialize"],
  webhooks: ["guard"],
};
/** Groups of one resource. In all others, each folder is a resource. */
const SINGLE = ["detection", "other_apis"];

/** `["resources", "data", "volumes", "files"]` → volumes and its file `files`. */
function resourceOf([ring, group = "", ...rest]: string[]): [resource: string, file: string] | [] {
  if (ring !== "resources") return [];
  const [resource = "", ...file] = SINGLE.includes(group) ? [group, ...rest] : rest;
  return [resource, file.join("/")];
}
const isPublic = (resource: string, file: string) =>
  ["service", "table", "schema", ...(PUBLIC[resource] ?? [])].includes(file);

/** These files put the rings together. `offline` gives the command line the services when no server runs. */
const ROOTS = [
  "src/app.ts",
  "src/routes.ts",
  "src/loops.ts",
  "src/main.ts",
  "src/state.ts",
  "src/parts.ts",
  "src/ports.ts",
  "src/purge.ts",
  "src/schedules.ts",
  "src/outside_thread.ts",
  "src/cli/offline.ts",
];

test("every import stays within its ring", async () => {
  const bad: string[] = [];
  for (const file of sources) {
    const [, ring = "", ...within] = file.replace(/\.tsx?$/, "").split("/");
    const [resource] = resourceOf([ring, ...within]);
    const allowed = MAY[ring];
    if (!allowed || ROOTS.includes(file)) continue;
    for (const { path } of importsOf(file)) {
      const to = resolve("/", file, "..", path)
        .replace(/^\/src\//, "")
        .replace(/\.(tsx?|html|sql)$/, "");
      const parts = to.split("/");
      const [other, otherFile = ""] = resourceOf(parts);
      const own = resource !== undefined && other === resource;
      const neighbour = resource !== undefined && other !== undefined && isPublic(other, otherFile);
      const outside = to.startsWith("/"); // package.json
      if (
        own ||
        neighbour ||
        outside ||
        allowed.includes(parts[0] ?? "") ||
        allowed.some((a) => to === a || to.startsWith(`${a}/`))
      )
        continue;
      bad.push(`${file} may not import ${path}`);
    }
  }
  expect(bad).toEqual([]);
});

test("no files import each other in a circle", () => {
  expect(cycles(valueImports())).toEqual([]);
  const circle = new Map([
    ["a", ["b"]],
    ["b", ["c"]],
    ["c", ["a", "d"]],
    ["d", []],
  ]);
  expect(cycles(circle)).toEqual([["a", "b", "c"]]);
});

test("types tie few files into a circle", () => {
  expect(cycles(allImports()).filter((files) => files.length > 10)).toEqual([]);
});

test("a resource exports its own functions only: it re-exports nothing", () => {
  const bad = sources.filter(
    (file) => file.startsWith("src/resources/") && /^export (\*|\{[^}]*\}) .*from/m.test(read(file)),
  );
  expect(bad).toEqual([]);
});

test("main has dynamic imports only, apart from the version, so that it loads nothing early", async () => {
  const statics = [...read("src/main.ts").matchAll(/^import .*from "(\..*)";$/gm)].map((m) => m[1]);
  expect(statics).toEqual(["./lib/version.ts"]);
});

test("every table in the code is the table in the database, column by column", async () => {
  const app = testApp();
  const tables = new Map<string, SQLiteTable>();
  for (const file of sources.filter(
    (f) => f.startsWith("src/resources/") || f.startsWith("src/events/") || f.startsWith("src/http/"),
  ))
    for (const value of Object.values((await import(join(ROOT, file))) as object))
      if (is(value, SQLiteTable)) tables.set(getTableName(value), value);
  const actual = app.ctx.db.$client
    .query("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all() as { name: string }[];
  const ofPlatform = "schema_migrations"; // the list of migrations, which is there before any table of the code
  expect([...tables.keys(), ofPlatform].sort()).toEqual(actual.map((t) => t.name).sort());
  for (const [name, table] of tables) {
    const inCode = Object.values(getTableColumns(table)).map(
      (c) => `${c.name} ${c.getSQLType().toUpperCase()} ${c.notNull}`,
    );
    const info = app.ctx.db.$client.query(`PRAGMA table_info(${name})`).all() as {
      name: string;
      type: string;
      notnull: number;
      pk: number;
    }[];
    const inDatabase = info.map((c) => `${c.name} ${c.type} ${c.notnull === 1 || c.pk > 0}`);
    expect({ name, columns: inCode.sort() }).toEqual({ name, columns: inDatabase.sort() });
  }
  await app.close().then(app.remove);
});

/** Sections that are handed over whole → the file that reads their keys. */
const WHOLE: Record<string, string> = {
  detect: "src/resources/detection/policy.ts",
  log: "src/platform/log.ts",
  queues: "src/platform/db/waiting_limit.ts",
  quotas: "src/platform/config/quotas.ts",
  sandbox: "src/sandbox/reward/pool.ts",
  storage: "src/platform/storage/s3/bucket.ts",
  volumes: "src/platform/config/quotas.ts",
  workers: "src/platform/workers/supervisor.ts",
};

/** True if `code` reads `section.key`, or takes `key` out of an object that is the section. */
function readsSetting(code: string, path: string): boolean {
  const [section = "", key = ""] = path.includes(".") ? path.split(".") : ["config", path];
  const member = `\\b${section}\\??\\.${key}\\b`;
  const object = `\\{[^{}]*\\b${key}\\b[^{}]*\\}`;
  const taken = `${object}( = [^;{}]*\\b${section}\\b|: (Config|Ctx\\["config"\\])\\["${section}"\\])|\\b${section}: ${object}`;
  return new RegExp(`${member}|${taken}`).test(code);
}

test("every setting is read by its path", () => {
  const code = sources
    .filter((file) => !file.startsWith("src/platform/config/"))
    .map(read)
    .join("\n")
    .replaceAll(/\s+/g, " ");
  const unused = leaves(SETTINGS).filter(({ path }) => {
    const [section = "", key = ""] = path.split(".");
    const whole = WHOLE[section];
    return !readsSetting(code, path) && !(whole && new RegExp(`\\b${key}\\b`).test(read(whole)));
  });
  expect(unused.map(({ path }) => path)).toEqual([]);
  expect(["http.listen_to", "hub.listen", "offline_mode"].filter((path) => readsSetting(code, path))).toEqual([]);
});

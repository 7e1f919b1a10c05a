import { expect, test } from "bun:test";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../../src/resources/training/training_jobs");

/** From the door down to the tables. A file may import its own layer and the layers below. */
const LAYERS = [
  ["routes", "service"],
  ["admission"],
  ["remote"],
  ["running"],
  ["custom", "logs", "artifacts", "views"],
  ["state"],
  ["policy", "machine", "schema", "remote_runs"],
  ["table"],
];

/** `admission/create.ts` → 1 */
const layerOf = (file: string) => {
  const [first = ""] = file.replace(/\.ts$/, "").split("/");
  return LAYERS.findIndex((names) => names.includes(first));
};

const importsOf = (source: string) => [...source.matchAll(/\bfrom "(\.[^"]*)"/g)].map(([, path = ""]) => path);

/** Imports that leave for a higher layer, such as `state/moves.ts → service.ts`. Type imports count too. */
function upward(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([file, source]) =>
    importsOf(source)
      .map((path) => resolve("/", file, "..", path).slice(1))
      .filter((to) => files.has(to) && layerOf(to) < layerOf(file))
      .map((to) => `${file} → ${to}`),
  );
}

const sources = new Map(
  await Promise.all(
    [...new Bun.Glob("**/*.ts").scanSync(ROOT)]
      .filter((file) => !file.endsWith(".test.ts"))
      .map(async (file) => [file, await Bun.file(join(ROOT, file)).text()] as const),
  ),
);

test("every file of training_jobs belongs to a layer", () => {
  expect([...sources.keys()].filter((file) => layerOf(file) < 0)).toEqual([]);
  expect(sources.size).toBeGreaterThan(40);
});

test("training_jobs imports only downward: routes, admission, remote, running, wings, state, policy, table", () => {
  expect(upward(sources)).toEqual([]);
  const wrong = new Map([
    ["state/moves.ts", 'import { cancel } from "../service.ts";'],
    ["service.ts", 'import { fail } from "./state/moves.ts";'],
    ["schema.ts", 'import type { Priority } from "./admission/create_schema.ts";'],
    ["admission/create_schema.ts", 'import { JOB_METHODS } from "../schema.ts";'],
  ]);
  expect(upward(wrong)).toEqual(["state/moves.ts → service.ts", "schema.ts → admission/create_schema.ts"]);
});

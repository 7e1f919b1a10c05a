/**
 * src/sandbox/files is the only door to directories that foreign code may change. Paths of them exist in that folder
 * alone: the type `ForeignDir` hides them. What a type cannot say is checked here, by reading the sources.
 */
import { expect, test } from "bun:test";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");
const DOOR = "src/sandbox/files/";
const sources = [...new Bun.Glob("src/**/*.ts").scanSync(ROOT)]
  .filter((file) => !file.endsWith(".test.ts") && !file.endsWith(".d.ts"))
  .sort();
const texts = new Map(
  await Promise.all(sources.map(async (file) => [file, await Bun.file(join(ROOT, file)).text()] as const)),
);
const outside = [...texts].filter(([file]) => !file.startsWith(DOOR));

/** Names that the file imports from a module whose path ends with `from`, types included. */
function importsOf(text: string, from: RegExp): string[] {
  return [...text.matchAll(/import\s+(?:type\s+)?([^;]*?)\s+from\s+"([^"]+)"/g)]
    .filter(([, , path = ""]) => from.test(path))
    .flatMap(([, names = ""]) => names.replace(/[{}]/g, "").split(","))
    .map(
      (name) =>
        name
          .trim()
          .replace(/^type /, "")
          .split(" as ")[0] as string,
    )
    .filter(Boolean);
}

const whoImports = (name: string, from: RegExp) =>
  outside.filter(([, text]) => importsOf(text, from).includes(name)).map(([file]) => file);

/** Functions of node:fs that take an open descriptor; the rest of the module takes a path. */
const BY_DESCRIPTOR = ["closeSync", "fstatSync", "ftruncateSync", "read", "readSync", "writeSync"];
/** Functions of platform/files.ts that take an open descriptor. */
const HELPERS_BY_DESCRIPTOR = ["readIntoSync"];
/** Resources whose directories are foreign: what they do with files goes through the door. */
const OWNERS = /^src\/resources\/(machines\/sessions|training\/training_jobs)\//;
/** Functions of platform/files.ts that take the path of a temporary file, which only the server can reach. */
const OWN_PATHS = ["writeTemp", "StorageError", "Chunks"];
/** The file of a base model lies in a folder of the server's own. */
const BASE_MODEL = "src/resources/training/training_jobs/admission/base_model.ts: sha256File";

test("only src/sandbox/files knows the directories of jobs and sessions", () => {
  const said = /(data_dir|dataDir)[^;\n]*["'`/](jobs|sessions)\b/;
  expect(outside.filter(([, text]) => said.test(text)).map(([file]) => file)).toEqual([]);
});

test("only src/sandbox/files makes a ForeignDir, and only the jail and messages to workers get its path", () => {
  const door = /sandbox\/files\/foreign_dir\.ts$|^\.\.?\/files\/foreign_dir\.ts$/;
  expect(outside.filter(([, text]) => /ForeignDir\.in\(|new ForeignDir\(/.test(text)).map(([file]) => file)).toEqual(
    [],
  );
  expect(whoImports("pathOf", door)).toEqual(["src/sandbox/jail/spec.ts"]);
  expect(whoImports("topOf", door)).toEqual([]);
  expect(whoImports("namesOf", door)).toEqual([]);
  expect(whoImports("openTop", door)).toEqual([]);
  expect(whoImports("openForeign", door)).toEqual([]);
  expect(whoImports("openParent", door)).toEqual([]);
  expect(whoImports("pathForWorker", door)).toEqual([
    "src/cli/node/unpack.ts",
    "src/resources/training/code_artifacts/unpack.ts",
    "src/resources/training/training_jobs/artifacts/exports.ts",
    "src/resources/training/training_jobs/running/plan.ts",
  ]);
});

test("only src/sandbox/files uses calls by descriptor and walks", () => {
  const low = /(sandbox|^\.)\/files\/(beneath\w*|steps)\.ts$/;
  expect(outside.filter(([, text]) => importsOf(text, low).length > 0).map(([file]) => file)).toEqual([]);
});

test("sessions and training jobs use no function of the file system that takes a path", () => {
  const bad = outside
    .filter(([file]) => OWNERS.test(file))
    .flatMap(([file, text]) => {
      const paths = importsOf(text, /^(node:)?fs(\/promises)?$/).filter((name) => !BY_DESCRIPTOR.includes(name));
      const helpers = importsOf(text, /platform\/files\.ts$/).filter(
        (name) => ![...OWN_PATHS, ...HELPERS_BY_DESCRIPTOR].includes(name),
      );
      const bun = /\bBun\.(file|write)\(|\brequire\(|\bimport\("node:fs/.exec(text)?.[0];
      return [...paths, ...helpers, ...(bun ? [bun] : [])].map((name) => `${file}: ${name}`);
    });
  expect(bad).toEqual([BASE_MODEL]);
});

/** It mkdirs and removes a temporary file of the server's own; the directory it passes on unopened. */
const TEMPORARY = { "src/resources/training/code_artifacts/unpack.ts": ["mkdir", "rm"] } as Record<string, string[]>;

test("code that gets the path of a foreign directory for a worker opens no file by path itself", () => {
  const door = /sandbox\/files\/foreign_dir\.ts$/;
  const bad = whoImports("pathForWorker", door).flatMap((file) =>
    importsOf(texts.get(file) as string, /^(node:)?fs(\/promises)?$/)
      .filter((name) => !TEMPORARY[file]?.includes(name))
      .map((name) => `${file}: ${name}`),
  );
  expect(bad).toEqual([]);
});

test("no reader of checkpoint rows opens a file by path", () => {
  const readers = outside.filter(([, text]) => importsOf(text, /table\.ts$/).includes("trainingCheckpoints"));
  expect(readers.map(([file]) => file)).toContain("src/resources/training/training_jobs/artifacts/job_models.ts");
  const bad = readers.flatMap(([file, text]) =>
    importsOf(text, /^(node:)?(fs(\/promises)?|path)$/).map((n) => `${file}: ${n}`),
  );
  expect(bad).toEqual([]);
});

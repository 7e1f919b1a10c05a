import { afterAll, expect, test } from "bun:test";
import { appendFileSync, mkdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { testApp } from "../../../../../test/harness.ts";
import { insert } from "../../../../../test/insert_row.ts";
import { newId } from "../../../../lib/ids.ts";
import { BUILTIN_NAME } from "../builtin.ts";
import * as models from "../service.ts";
import { hashNew } from "./hash.ts";

const app = testApp({ parts: ["models"] });
afterAll(() => app.close().then(app.remove));

const WRITTEN = 1_700_000_000;

/** A file of the folder, as a scan registers it. */
function registered(name: string): string {
  const path = join(app.dir, "models", `${name}.gguf`);
  mkdirSync(join(app.dir, "models"), { recursive: true });
  writeFileSync(path, name);
  utimesSync(path, WRITTEN, WRITTEN);
  const { size, mtimeMs } = statSync(path);
  insert(app, "models", newId("mdl"), 1, {
    workspace_id: null,
    name,
    status: "ready",
    source: "folder",
    path: `models/${name}.gguf`,
    size_bytes: size,
    file_mtime_ms: Math.floor(mtimeMs),
    metadata: "{}",
  });
  return path;
}

/** The time stays: on some file systems it counts whole seconds. */
function appendLate(path: string) {
  appendFileSync(path, "more");
  utimesSync(path, WRITTEN, WRITTEN);
}

test("the hash of a file that changed while it was read is not stored", async () => {
  const { shape } = models.mustGet(app.ctx, app.workspaceA, BUILTIN_NAME);
  if (!shape) throw new Error("the built-in model has no shape");
  const quiet = registered("quiet");
  const changes = new Map([
    [registered("longer"), appendLate],
    [registered("rewritten"), (path: string) => utimesSync(path, WRITTEN, WRITTEN + 1)],
  ]);
  const questions: string[] = [];
  app.ctx.state.models.hashes.ask = async (_supervisor, _workspaceId, { path }) => {
    questions.push(path);
    changes.get(path)?.(path);
    return { type: "inspected", path, shape, size_bytes: 5, sha256: "ab".repeat(32) };
  };
  await hashNew(app.ctx);
  expect(questions.sort()).toEqual([...changes.keys(), quiet].sort());
  const hashOf = (name: string) => models.mustGet(app.ctx, app.workspaceA, name).sha256;
  expect([hashOf("quiet"), hashOf("longer"), hashOf("rewritten")]).toEqual(["ab".repeat(32), null, null]);
});

/** A workspace that got hold of another one's blocks of prompts can neither read them nor learn what they are of. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../src/resources/serving/deployments/prefixes/store.ts";
import { PrefixFolder } from "../../src/workers/serving/engine/prefixes/folder.ts";
import { manyApps, type TestApp } from "../harness.ts";

const { open, closeAll } = manyApps();
const COUNT = 6;
const prompt = Int32Array.from({ length: COUNT * 64 }, (_, i) => i % 97);
const SECRET = new TextEncoder().encode("what the model computed for a secret prompt".repeat(20));
let app: TestApp;
beforeAll(() => {
  app = open();
});
afterAll(closeAll);

/** A replica of the workspace, with the folder and the key that the server gives it. */
function replicaOf(workspaceId: string) {
  const store = openStore(app.ctx, workspaceId)!;
  const folder = new PrefixFolder({ ...store, identity: "the same model" }, () => {});
  folder.grant(1e6);
  const names = folder.names({ decoder: "own", adapter: "" }, prompt, COUNT);
  return { dir: store.dir, folder, names };
}

test("the same prompt has other names in each workspace, so their folders cannot be compared", () => {
  const [victim, thief] = [replicaOf(app.workspaceA), replicaOf(app.workspaceB)];
  for (const name of victim.names) expect(victim.folder.write(name, SECRET)).toBe(true);
  expect(victim.names.filter((name) => thief.names.includes(name))).toEqual([]);
  // a thief who asks the victim's prompt finds nothing, so its answer comes no sooner
  expect(thief.folder.count(thief.names)).toBe(0);
  const other = openStore(app.ctx, app.workspaceA)!;
  const elsewhere = new PrefixFolder({ ...other, identity: "another model" }, () => {});
  expect(elsewhere.count(elsewhere.names({ decoder: "own", adapter: "" }, prompt, COUNT))).toBe(0);
});

test("stolen blocks open under no name, are removed when they are used, and their bytes show nothing", () => {
  const [victim, thief] = [replicaOf(app.workspaceA), replicaOf(app.workspaceB)];
  const stolen = readdirSync(victim.dir);
  expect(stolen).toHaveLength(COUNT);
  for (const [i, name] of stolen.entries()) {
    const sealed = readFileSync(join(victim.dir, name));
    expect(sealed.includes(Buffer.from(SECRET.subarray(0, 16)))).toBe(false);
    for (const as of [name, thief.names[i]!]) {
      copyFileSync(join(victim.dir, name), join(thief.dir, as));
      expect(thief.folder.read(as)).toBeNull();
      expect(readdirSync(thief.dir)).toEqual([]);
    }
  }
  expect(thief.folder.takeCounts()?.counts).toMatchObject({ read_blocks: 0, bad_blocks: 2 * COUNT });
});

test("a block that a thief plants in the folder of a victim is not used", () => {
  const [victim, thief] = [replicaOf(app.workspaceA), replicaOf(app.workspaceB)];
  const [name] = victim.names as [string];
  rmSync(join(victim.dir, name));
  expect(thief.folder.write(name, SECRET)).toBe(true);
  copyFileSync(join(thief.dir, name), join(victim.dir, name));
  expect([victim.folder.has(name), victim.folder.read(name), victim.folder.has(name)]).toEqual([true, null, false]);
});

test("with the row of a deleted workspace goes the key: from then on its blocks are noise, also in an old copy", async () => {
  const { dir, names } = replicaOf(app.workspaceA);
  const copies = names.slice(1).map((name) => [name, readFileSync(join(dir, name))] as const);
  const { status } = await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  expect([status, openStore(app.ctx, app.workspaceA)]).toEqual([200, undefined]);
  const tables = app.ctx.db.$client.query("SELECT count(*) AS n FROM prefix_stores WHERE workspace_id = ?");
  expect(tables.get(app.workspaceA)).toEqual({ n: 0 });
  const later = replicaOf(app.workspaceB);
  for (const [name, bytes] of copies) {
    writeFileSync(join(later.dir, name), bytes);
    expect(later.folder.read(name)).toBeNull();
  }
});

import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyApps, type TestApp, until } from "../../../../../test/harness.ts";
import { purge } from "../../../../purge.ts";
import { usedBytes } from "../../../data/storage_usage/service.ts";
import { blocksOf, sweep } from "./blocks.ts";
import { limitOf, PrefixRoom } from "./room.ts";
import { dirOf, find, openStore } from "./store.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const NOTHING = {
  stored_blocks: 0,
  stored_bytes: 0,
  read_blocks: 0,
  read_bytes: 0,
  read_tokens: 0,
  read_ms: 0,
  saved_ms: 0,
  bad_blocks: 0,
};
const stored = (bytes: number) => ({ ...NOTHING, stored_blocks: 1, stored_bytes: bytes });
const used = (app: TestApp, workspaceId = app.workspaceA) => usedBytes(app.ctx.db, { workspaceId, kind: "prefixes" });

/** A process of the workspace that writes blocks. The higher `age`, the longer ago a block was used. */
function writer(app: TestApp, workspaceId = app.workspaceA) {
  const warnings: string[] = [];
  const store = openStore(app.ctx, workspaceId)!;
  const room = new PrefixRoom(app.ctx, workspaceId, (text) => void warnings.push(text));
  return {
    room,
    store,
    warnings,
    async write(name: string, bytes: number, age: number) {
      const granted = await room.grant(bytes);
      if (granted < bytes) return granted;
      const path = join(store.dir, name.padStart(64, "0"));
      writeFileSync(path, new Uint8Array(bytes));
      const at = Date.now() / 1000 - age;
      utimesSync(path, at, at);
      room.record(stored(bytes), null);
      return granted;
    },
    names: () =>
      readdirSync(store.dir)
        .map((name) => name.replace(/^0+/, ""))
        .sort(),
  };
}

test("a workspace has one key and one folder, which nobody else may read", async () => {
  const app = open();
  const [first, again] = [openStore(app.ctx, app.workspaceA)!, openStore(app.ctx, app.workspaceA)!];
  const other = openStore(app.ctx, app.workspaceB)!;
  expect(again).toEqual(first);
  expect(first.key).toMatch(/^[0-9a-f]{64}$/);
  expect([other.key === first.key, other.dir === first.dir]).toEqual([false, false]);
  expect(find(app.ctx, app.workspaceA)?.keySealed).not.toContain(first.key);
});

test("blocks count as storage of their workspace when they are reported, and room that was granted is not given twice", async () => {
  const app = open({ flags: { "serving.prefix_cache_bytes": 1_000 } });
  const one = writer(app);
  const two = writer(app, app.workspaceB);
  await one.write("a1", 300, 50);
  expect([used(app), used(app, app.workspaceB), one.room.granted]).toEqual([300, 0, 0]);
  expect(await one.room.grant(400)).toBe(400);
  expect(await two.room.grant(500)).toBe(500); // the block of the other had to go
  expect([used(app), one.names()]).toEqual([0, []]);
  expect(await two.room.grant(400)).toBe(100);
  one.room[Symbol.dispose](); // its process has ended
  expect(await two.room.grant(500)).toBe(400);
});

test("the blocks that were used longest ago go first, of all workspaces for the limit of all", async () => {
  const app = open({ flags: { "serving.prefix_cache_bytes": 1_000 } });
  const [one, two] = [writer(app), writer(app, app.workspaceB)];
  await one.write("a1", 300, 300);
  await two.write("b1", 300, 200);
  await one.write("a2", 300, 100);
  await one.write("a3", 250, 0);
  expect([one.names(), two.names()]).toEqual([["a2", "a3"], ["b1"]]);
  await two.write("b2", 300, 0);
  expect([one.names(), two.names()]).toEqual([["a2", "a3"], ["b2"]]);
  expect([used(app), used(app, app.workspaceB)]).toEqual([550, 300]);
  expect([one.warnings, two.warnings]).toEqual([[], []]);
});

test("the limit of one workspace costs no other one a block", async () => {
  const app = open({ flags: { "serving.prefix_cache_bytes": 10_000, "quotas.prefix_bytes": 500 } });
  const [one, two] = [writer(app), writer(app, app.workspaceB)];
  await two.write("b1", 300, 900);
  await one.write("a1", 300, 10);
  await one.write("a2", 300, 0);
  expect([one.names(), two.names()]).toEqual([["a2"], ["b1"]]);
  expect(limitOf(app.ctx, app.workspaceA)).toBe(500);
});

test("a limit below a block, a full disk and a folder that is gone each cost one warning, and no error", async () => {
  const small = open({ flags: { "serving.prefix_cache_bytes": 100 } });
  const one = writer(small);
  expect(await one.room.grant(100)).toBe(100);
  expect([await one.room.grant(50), await one.room.grant(50)]).toEqual([0, 0]);
  expect(one.warnings).toHaveLength(1);

  const full = open({ flags: { "storage.min_free_bytes": Number.MAX_SAFE_INTEGER } });
  const two = writer(full);
  expect([await two.room.grant(100), await two.room.grant(100)]).toEqual([0, 0]);
  expect(two.warnings).toEqual([expect.stringContaining("storage.min_free_bytes")]);

  const bare = open();
  const three = writer(bare);
  for (let i = 0; i < 3; i++) three.room.record(NOTHING, "ENOENT: no such file or directory");
  expect(three.warnings).toEqual([expect.stringContaining("ENOENT")]);
  three.room.record(stored(1), null); // it works again
  three.room.record(NOTHING, "ENOENT: no such file or directory");
  expect(three.warnings).toHaveLength(2);
});

test("with 0 nothing is kept", () => {
  const app = open({ flags: { "serving.prefix_cache_bytes": 0 } });
  expect(openStore(app.ctx, app.workspaceA)).toBeUndefined();
  expect(existsSync(dirOf(app.ctx, app.workspaceA))).toBe(false);
});

test("a sweep counts what is there, and removes what a kill left and folders without a key", async () => {
  const app = open();
  const one = writer(app);
  await one.write("a1", 300, 0);
  writeFileSync(join(one.store.dir, "f".repeat(64)), new Uint8Array(50)); // written before a kill, never reported
  const left = join(one.store.dir, ".verk-tmp-0123456789abcdef");
  writeFileSync(left, "half");
  utimesSync(left, 1, 1);
  const strange = dirOf(app.ctx, "ws_of_no_row");
  mkdirSync(strange, { recursive: true });
  await sweep(app.ctx);
  expect([used(app), existsSync(left), existsSync(strange)]).toEqual([350, false, false]);
  expect(await blocksOf(app.ctx, app.workspaceA)).toHaveLength(2);
});

test("after an upgrade to another format a sweep removes the older blocks of all workspaces, once", async () => {
  const app = open();
  const [one, two] = [writer(app), writer(app, app.workspaceB)];
  await one.write("a1", 300, 50);
  await two.write("b1", 300, 50);
  await sweep(app.ctx);
  expect([one.names(), two.names()]).toEqual([["a1"], ["b1"]]);
  writeFileSync(join(one.store.dir, "../format"), "VKP0"); // the last server had another one
  await one.write("a2", 200, -50); // by a replica of this server
  await sweep(app.ctx);
  expect([one.names(), two.names(), used(app), used(app, app.workspaceB)]).toEqual([["a2"], [], 200, 0]);
  await two.write("b2", 300, 50);
  await sweep(app.ctx);
  expect(two.names()).toEqual(["b2"]);
});

test("the key goes in the commit that deletes the workspace, then the blocks; nothing brings it back", async () => {
  const app = open();
  const one = writer(app);
  await one.write("a1", 300, 0);
  expect((await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey })).status).toBe(
    200,
  );
  expect([find(app.ctx, app.workspaceA), used(app)]).toEqual([undefined, 0]);
  expect(openStore(app.ctx, app.workspaceA)).toBeUndefined();
  expect(await one.room.grant(100)).toBe(0);
  await purge(app.ctx);
  await until("the folder is gone", () => !existsSync(one.store.dir));
});

import { expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { testApp } from "../../../test/harness.ts";
import { agents } from "../../resources/serving/agents/table.ts";
import { write } from "./db.ts";
import { preparedInsert } from "./row.ts";
import { versionsOf } from "./versions.ts";

const insert = preparedInsert(agents);
const { newest, find, mustFind, within, next, remove, removeAll } = versionsOf(agents, {
  prefix: "agt",
  missing: (ref, isName) => `No ${isName ? "name" : "version"} ${ref}`,
  preferred: eq(agents.deployment, "good"),
  erase: (tx, { id }, now) => tx.update(agents).set({ deletedAt: now }).where(eq(agents.id, id)).run(),
});

test("versions are numbered by name, found by every reference, and deleted one by one", async () => {
  const app = testApp();
  const { ctx, workspaceA: workspaceId } = app;
  const add = (name: string, deployment: string) =>
    write(ctx.db, (tx) => {
      const shown = { description: null, deployment, systemPrompt: null, tools: [], sampling: {}, metadata: {} };
      const content = { ...shown, maxTurns: null };
      return insert(tx, { ...next(tx, { workspaceId, name }, ctx.clock.now()), ...content });
    });
  const listed = (query: { name?: string; latest: boolean }) =>
    ctx.db.select().from(agents).where(within(workspaceId, query)).orderBy(agents.name, agents.version).all();
  const titles = (rows: { name: string; version: number }[]) => rows.map(({ name, version }) => `${name}@${version}`);

  const [first, second, third] = [add("a", "good"), add("a", "good"), add("a", "bad")];
  add("b", "bad");
  expect(titles([first, second, third])).toEqual(["a@1", "a@2", "a@3"]);
  expect(find(ctx, workspaceId, first.id)).toEqual(first);
  expect(find(ctx, workspaceId, "a@3")).toEqual(third);
  expect(find(ctx, workspaceId, "a")).toEqual(second); // the newest of the preferred
  expect(find(ctx, workspaceId, "b")?.version).toBe(1); // none is preferred
  expect(newest(ctx, workspaceId, "a")).toEqual(third);
  expect(find(ctx, app.workspaceB, first.id)).toBeUndefined();
  expect(titles(listed({ latest: false }))).toEqual(["a@1", "a@2", "a@3", "b@1"]);
  expect(titles(listed({ latest: true }))).toEqual(["a@3", "b@1"]);
  expect(titles(listed({ latest: true, name: "a" }))).toEqual(["a@3"]);

  expect(() => mustFind(ctx, workspaceId, "c")).toThrow("No name c");
  expect(() => mustFind(ctx, workspaceId, "a@4")).toThrow("No version a@4");
  expect(() => remove(ctx, workspaceId, "a")).toThrow(`delete one version by its id (${second.id}) or as a@2`);

  expect(remove(ctx, workspaceId, "a@3")).toEqual(third);
  expect(find(ctx, workspaceId, third.id)).toBeUndefined();
  expect(titles(listed({ latest: true }))).toEqual(["a@2", "b@1"]);
  expect(add("a", "bad").version).toBe(4); // a deleted number is not given again
  removeAll(ctx, workspaceId);
  expect(listed({ latest: false })).toEqual([]);
  await app.close().then(app.remove);
});

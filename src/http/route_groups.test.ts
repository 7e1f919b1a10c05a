import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../test/harness.ts";
import { mainPort } from "../routes.ts";
import { ANY } from "./fallback.ts";
import { firstWords, openGroups, type RouteGroup } from "./route_groups.ts";

let app: TestApp;
let groups: readonly RouteGroup[];
beforeAll(() => {
  app = testApp();
  groups = mainPort(app.ctx).groups;
});
afterAll(() => app.close().then(app.remove));

test.each([
  ["/", "/"],
  ["/healthz", "/healthz"],
  ["/api/chat", "/api"],
  ["/v1", "/v1"],
  ["/v1/", "/v1/"],
  ["/v1/datasets", "/v1/datasets"],
  ["/v1/datasets/", "/v1/datasets"],
  ["/v1/datasets/ds_1/rows", "/v1/datasets"],
  ["/v1x/datasets", "/v1x"],
  ["//v1/datasets", "/"],
])("the first words of %s", (path, words) => {
  expect(firstWords(path)).toBe(words);
});

test("every route is in the group of its first words, and no words are in two groups", async () => {
  const words = groups.flatMap(({ at }) => at);
  expect(words.toSorted()).toEqual([...new Set(words)].toSorted());
  const misplaced: string[] = [];
  for (const [i, group] of groups.entries()) {
    const port = { ...mainPort(app.ctx), groups: [{ at: [], load: group.load }] };
    const routes = (await openGroups(app.ctx, port).all()).filter(({ method }) => method !== ANY);
    expect(routes.length).toBeGreaterThan(0);
    for (const { method, path } of routes) {
      const isHere = i === 0 ? !words.includes(firstWords(path)) : group.at.includes(firstWords(path));
      if (!isHere) misplaced.push(`${method} ${path}`);
    }
    const used = new Set(routes.map(({ path }) => firstWords(path)));
    for (const unused of group.at.filter((each) => !used.has(each))) misplaced.push(`${unused} has no route`);
  }
  expect(misplaced).toEqual([]);
});

test("a group is loaded with the first request for it, once, and later reads are answered in the same turn", async () => {
  let loads = 0;
  const load = (group: RouteGroup) => {
    loads++;
    return group.load();
  };
  const counting = groups.map((group) => ({ ...group, load: () => load(group) }));
  const opened = openGroups(app.ctx, { ...mainPort(app.ctx), groups: counting });
  expect(opened.routesAt("/v1/datasets")).toEqual([]);
  const both = [opened.at("/v1/datasets"), opened.at("/v1/volumes/x")];
  expect(both.every((group) => group instanceof Promise)).toBe(true);
  const [first, second] = await Promise.all(both);
  expect(first).toBe(second as NonNullable<typeof second>);
  expect(opened.at("/v1/datasets/ds_1")).toBe(first as NonNullable<typeof first>);
  expect(opened.routesAt("/v1/datasets").length).toBeGreaterThan(10);
  expect(loads).toBe(1);
});

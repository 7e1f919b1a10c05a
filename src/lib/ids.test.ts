import { expect, test } from "bun:test";
import { isId, newId } from "./ids.ts";

/** Ids of a process never go back in time, and another test may have lived in the future: this is a module of its own. */
const OWN = "./ids.ts?own";

test("ids of one process sort in the order they were made, also within a millisecond and when the clock steps back", () => {
  const ids = [5, 5, 5, 6, 4, 7].map((ms) => newId("ws", 1_700_000_000_000 + ms));
  expect([...ids].sort()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
});

test("an id is its prefix and 26 characters that no font confuses", () => {
  const id = newId("key");
  expect(id).toMatch(/^key_[0-9a-hjkmnp-tv-z]{26}$/);
  expect(isId(id, "key")).toBe(true);
  expect(isId(id, "ws")).toBe(false);
  expect(isId("key_short", "key")).toBe(false);
});

test("the first ten characters are the time", async () => {
  const own = (await import(OWN)) as typeof import("./ids.ts");
  const time = (ms: number) => own.newId("evt", ms).slice(4, 14);
  const [earlier, later] = [Date.now() + 1e9, Date.now() + 2e9].map(time);
  expect(later! > earlier!).toBe(true);
});

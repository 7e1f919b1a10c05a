import { expect, test } from "bun:test";
import { SourceError } from "../types.ts";
import { findObjects } from "./find.ts";
import type { Store, StoredObject } from "./store.ts";

const fakeStore = (pages: () => Iterable<StoredObject[]>): Store => ({
  prefix: "s3://bucket/",
  stat: async () => undefined,
  async *list() {
    yield* pages();
  },
  open: async () => {
    throw new Error("nothing is read");
  },
});
const found = (pages: () => Iterable<StoredObject[]>) =>
  findObjects(fakeStore(pages), "rows/*.jsonl", new AbortController().signal).catch((error: unknown) => error);

test("listing a store without end stops, also if no object matches", async () => {
  for (const page of [[], [{ key: "rows/other.txt", etag: "e", bytes: 1 }]]) {
    const error = await found(function* () {
      for (let i = 0; i < 1_000_000; i++) yield page;
      throw new Error("read to the end");
    });
    expect(error).toBeInstanceOf(SourceError);
    expect(error).toMatchObject({ code: "invalid_source", message: expect.stringContaining("narrower prefix") });
  }
});

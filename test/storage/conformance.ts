import { beforeAll, describe, expect, test } from "bun:test";
import { ContentError, sha256Bytes } from "../../src/platform/files.ts";
import { type Body, InvalidKeyError, type Storage } from "../../src/platform/storage/storage.ts";
import { sampleOf, sweep } from "../sweep.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = async (storage: Storage, key: string, range?: { offset: number; length?: number }) => {
  const found = await storage.get(key, range);
  return found && (await new Response(found.stream).text());
};
const keysOf = async (storage: Storage, prefix: string, limit = 1000) => {
  const keys: string[] = [];
  for (let after = ""; ; ) {
    const page = await storage.list(prefix, { after, limit });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    keys.push(...page.items.map((item) => item.key));
    if (page.next === undefined) return keys;
    after = page.next;
  }
};

const inByteOrder = (keys: readonly string[]) =>
  keys.toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));

type Options = {
  /** The number of folders of the deepest key. */
  deepest?: number;
  /** The share of lists that a quick run tries. */
  lists?: number;
};

/** Tests for every backend. `make` gives an empty storage. */
export function storageConformance(name: string, make: () => Storage | Promise<Storage>, options: Options = {}) {
  const { deepest = 449, lists = 1 } = options;
  describe(`${name} storage`, () => {
    test.each([
      ["bytes", () => bytes("hello")],
      ["a blob", () => new Blob(["hel", "lo"])],
      ["a web stream", () => new Blob(["hello"]).stream()],
      [
        "a generator",
        () =>
          (async function* () {
            yield bytes("hel");
            yield bytes("lo");
          })(),
      ],
    ] as [string, () => Body][])("stores %s and returns the same", async (_kind, body) => {
      const storage = await make();
      const sha256 = sha256Bytes("hello");
      expect(await storage.put("a/b.txt", body())).toEqual({ bytes: 5, sha256 });
      expect(await textOf(storage, "a/b.txt")).toBe("hello");
      expect(await storage.head("a/b.txt")).toMatchObject({ key: "a/b.txt", bytes: 5, sha256 });
      const opened = await storage.get("a/b.txt");
      expect(opened).toMatchObject({ bytes: 5, totalBytes: 5, sha256 });
      await opened!.stream.cancel();
    });

    test("holds an empty object, and ten megabytes byte for byte", async () => {
      const storage = await make();
      await storage.put("empty", new Uint8Array());
      expect(await textOf(storage, "empty")).toBe("");
      const big = new Uint8Array(10 << 20).map((_, i) => (i * 31) & 255);
      const { sha256 } = await storage.put("big", big);
      expect(sha256).toBe(sha256Bytes(big));
      const opened = await storage.get("big");
      expect(sha256Bytes(new Uint8Array(await new Response(opened!.stream).arrayBuffer()))).toBe(sha256);
    });

    describe("ranges", () => {
      let storage: Storage;
      beforeAll(async () => {
        storage = await make();
        await storage.put("k", bytes("hello"));
      });
      test.each([
        [{ offset: 0, length: 2 }, "he"],
        [{ offset: 3 }, "lo"],
        [{ offset: 1, length: 3 }, "ell"],
        [{ offset: 4, length: 100 }, "o"],
        [{ offset: 5 }, ""],
        [{ offset: 99, length: 1 }, ""],
        [{ offset: 2, length: 0 }, ""],
      ])("range %p reads %p", async (range, expected) => {
        const opened = await storage.get("k", range);
        expect(opened).toMatchObject({ bytes: expected.length, totalBytes: 5 });
        expect(await new Response(opened!.stream).text()).toBe(expected);
      });
    });

    test("an absent key is undefined, and deleting it is no error", async () => {
      const storage = await make();
      expect(await storage.get("none")).toBeUndefined();
      expect(await storage.head("none/of/these")).toBeUndefined();
      await storage.delete("none");
      await storage.delete("none/of/these");
      expect(await storage.list("")).toEqual({ items: [], next: undefined });
    });

    test("overwriting replaces, deleting removes, and a reader keeps what it opened", async () => {
      const storage = await make();
      await storage.put("k", bytes("old"));
      const reader = await storage.get("k");
      await storage.put("k", bytes("new!"));
      expect(await textOf(storage, "k")).toBe("new!");
      await storage.delete("k");
      await storage.sweep(0);
      expect(await storage.head("k")).toBeUndefined();
      expect(await new Response(reader!.stream).text()).toBe("old");
    });

    test.each([
      ["too large", { maxBytes: 4 }, "too_large"],
      ["of another hash", { expectedSha256: "0".repeat(64) }, "sha256_mismatch"],
    ] as const)("a body %s is refused and changes nothing", async (_name, options, reason) => {
      const storage = await make();
      await storage.put("k", bytes("old"));
      const error = await storage.put("k", bytes("hello"), options).catch((e) => e);
      expect(error).toBeInstanceOf(ContentError);
      expect(error.reason).toBe(reason);
      expect(await textOf(storage, "k")).toBe("old");
      await storage.put("k", bytes("hello"), { maxBytes: 5, expectedSha256: sha256Bytes("hello").toUpperCase() });
    });

    test("a body that breaks changes nothing", async () => {
      const storage = await make();
      const broken = (async function* () {
        yield bytes("x");
        throw new Error("gone");
      })();
      expect(storage.put("k", broken)).rejects.toThrow("gone");
      expect(await storage.get("k")).toBeUndefined();
    });

    describe("keys", () => {
      let storage: Storage; // empty before and after each of these
      beforeAll(async () => {
        storage = await make();
      });
      test.each([
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "./a",
        "a/./b",
        "a\0b",
        "a\nb",
        "\x7f",
        "a\u0085",
        "\ud800",
        "a\u2028",
        "x".repeat(241),
        "=".repeat(81),
        "!".repeat(121),
        `${"a/".repeat(450)}a`,
      ])("%p is no key", async (key) => {
        for (const call of [
          () => storage.put(key, bytes("x")),
          () => storage.get(key),
          () => storage.head(key),
          () => storage.delete(key),
        ])
          expect(await call().catch((error) => error)).toBeInstanceOf(InvalidKeyError);
      });

      /** All at once: a list is expensive with an emulated server. */
      test("unusual keys are ordinary keys", async () => {
        const keys = [
          "a",
          "...",
          "..a",
          ".hidden",
          "a b",
          "a%2Fb",
          "%2e%2e",
          "a=",
          "=",
          "%",
          "a\\..\\b",
          "C:",
          "日本/ünï",
          "．．/a",
          "a\u0301",
          "\u00e1",
          "-",
          "~",
          "*?",
          "x".repeat(240),
          ".verk-tmp-0123456789abcdef",
          "A",
          `${"a/".repeat(deepest)}a`,
          `${`${"x".repeat(224)}/`.repeat(3)}${"x".repeat(224)}`,
          "a !b",
          "!",
          " ",
          "..\u00a0",
          ". ",
          "\uffff",
          "a+b&c<d>",
          "CON",
          "😀",
        ];
        await Promise.all(keys.map((key) => storage.put(key, bytes(key))));
        expect(await keysOf(storage, "")).toEqual(inByteOrder(keys));
        expect(await Promise.all(keys.map((key) => textOf(storage, key)))).toEqual(keys);
        await Promise.all(keys.map((key) => storage.delete(key)));
        expect(await keysOf(storage, "")).toEqual([]);
      });
    });

    test("lists in byte order, by any prefix, page by page", async () => {
      const storage = await make();
      const keys = [
        "a",
        "a-b",
        "a b",
        "a !",
        "a!",
        "a! ",
        "a!b",
        'a"',
        "a.b",
        "a/b",
        "a/b/c",
        "a/c",
        "a0",
        "a=",
        "b",
        "b/",
        "B",
        "é",
        "日",
        "😀",
        "a/b-",
        "a%",
        "ａ",
      ].filter((key) => !key.endsWith("/"));
      for (const key of keys) await storage.put(key, bytes(key));
      const sorted = inByteOrder(keys);
      const limits = [...sampleOf("limits of lists", [1, 2, 3], lists), 1000];
      for (const limit of limits) expect(await keysOf(storage, "", limit)).toEqual(sorted);
      const prefixes = ["a", "a/", "a/b", "a/b/", "b", "z", "a=", "..", "../", "/", "é", "a/b/c/d", "a ", "a!"];
      for (const prefix of sampleOf("prefixes of lists", prefixes, lists))
        expect(await keysOf(storage, prefix, 2)).toEqual(sorted.filter((key) => key.startsWith(prefix)));
      const page = await storage.list("a", { after: "a/b", limit: 2 });
      expect(page.items.map((item) => item.key)).toEqual(["a/b-", "a/b/c"]);
    });

    test("a sweep keeps content that a key names and recent content", async () => {
      const storage = await make();
      await storage.put("kept", bytes("one"));
      await storage.put("twin", bytes("one"));
      await storage.put("gone", bytes("two"));
      await storage.delete("gone");
      await storage.delete("twin");
      expect((await storage.sweep(3_600_000)).objects).toBe(0);
      await storage.sweep(0);
      expect(await textOf(storage, "kept")).toBe("one");
    });

    test("concurrent puts, deletes and sweeps lose no acknowledged content", async () => {
      const storage = await make();
      const write = async (i: number) => {
        await storage.put(`d${i % 3}/k${i}`, bytes(`v${i % 5}`)); // few contents, shared by many keys
        if (i % 4 === 0) await storage.delete(`d${i % 3}/k${i}`);
      };
      const keys = sweep({ quick: 12, full: 60 });
      await Promise.all([
        ...Array.from({ length: keys }, (_, i) => write(i)),
        ...Array.from({ length: keys / 8 }, () => storage.sweep(0)),
      ]);
      for (let i = 0; i < keys; i++)
        expect(await textOf(storage, `d${i % 3}/k${i}`)).toBe(i % 4 === 0 ? undefined : `v${i % 5}`);
    });
  });
}

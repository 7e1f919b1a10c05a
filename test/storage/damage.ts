import { describe, expect, test } from "bun:test";
import { DamagedError } from "../../src/platform/storage/damage.ts";
import type { Storage } from "../../src/platform/storage/storage.ts";

export type Change = (content: Uint8Array) => Uint8Array;
/** `damage` changes the stored bytes of a key behind the back of the storage. `damages` has the reported errors. */
export type Damageable = {
  storage: Storage;
  damage: (key: string, change: Change) => Promise<void>;
  damages: DamagedError[];
};

const SMALL = 5_000;
const LARGE = 3 << 20; // more than is hashed before the first byte
const contentOf = (bytes: number) => new Uint8Array(bytes).map((_, i) => (i * 31) & 255);
const shorten: Change = (content) => content.subarray(0, content.length / 2);
const alter: Change = (content) => content.with(content.length / 2, content[content.length / 2]! ^ 1);
const read = async (storage: Storage, key: string, range?: { offset: number; length?: number }) => {
  const opened = await storage.get(key, range);
  return new Response(opened!.stream).bytes();
};
const faultOf = (work: Promise<unknown>) => work.then(() => "no error").catch((error) => error);

/** Tests for every backend, in addition to `storageConformance`. */
export function damageConformance(name: string, make: () => Promise<Damageable>) {
  describe(`${name} storage with damaged content`, () => {
    test.each([
      ["small", SMALL],
      ["large", LARGE],
    ])("D4 truncated object: %s content that is too short is refused before its first byte", async (_, bytes) => {
      const { storage, damage, damages } = await make();
      await storage.put("k", contentOf(bytes));
      await damage("k", shorten);
      for (const range of [undefined, { offset: 10, length: 20 }, { offset: bytes - 2 }]) {
        const error = await faultOf(storage.get("k", range));
        expect(error).toBeInstanceOf(DamagedError);
        expect(error.advice).toBe("a stored file is damaged. Upload it again, or restore it from a backup");
      }
      expect(damages.length).toBeGreaterThan(0);
    });

    test("D4 altered object: small content of another hash is refused before its first byte", async () => {
      const { storage, damage, damages } = await make();
      await storage.put("k", contentOf(SMALL));
      await damage("k", alter);
      const error = await faultOf(storage.get("k"));
      expect(error).toBeInstanceOf(DamagedError);
      expect(damages[0]).toBe(error);
    });

    test("D4 altered object: large content of another hash fails before the end of its stream", async () => {
      const { storage, damage, damages } = await make();
      const content = contentOf(LARGE);
      await storage.put("k", content);
      await damage("k", alter);
      const opened = await storage.get("k");
      let seen = 0;
      const reading = (async () => {
        for await (const chunk of opened!.stream) seen += chunk.byteLength;
      })();
      expect(await faultOf(reading)).toBeInstanceOf(DamagedError);
      expect(seen).toBeLessThan(LARGE);
      expect(damages).toHaveLength(1);
    });

    test.each([
      ["shorter", shorten],
      ["altered", alter],
    ])("D5 healing put: the same bytes replace %s content", async (_, change) => {
      const { storage, damage } = await make();
      const content = contentOf(SMALL);
      await storage.put("k", content);
      await damage("k", change);
      await storage.put("k", content);
      expect(await read(storage, "k")).toEqual(content);
      await damage("k", change);
      await faultOf(storage.get("k")); // the storage knows of the damage now
      await storage.put("k", content);
      expect(await read(storage, "k")).toEqual(content);
      expect(await read(storage, "k", { offset: 7, length: 9 })).toEqual(content.subarray(7, 16));
    });

    test("D4 sound content is given whole and in ranges, large and small", async () => {
      const { storage, damages } = await make();
      for (const bytes of [0, 1, SMALL, 1 << 20, (1 << 20) + 1, LARGE]) {
        const content = contentOf(bytes);
        await storage.put("k", content);
        expect(await read(storage, "k")).toEqual(content);
        if (bytes > 2) expect(await read(storage, "k", { offset: 1, length: 2 })).toEqual(content.subarray(1, 3));
      }
      expect(damages).toEqual([]);
    });
  });
}

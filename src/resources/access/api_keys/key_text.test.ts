import { expect, test } from "bun:test";
import { hashKey, looksLikeKey, mintKey, prefixOf } from "./key_text.ts";

test("a key is vk_ and 43 base62 characters, and every one is another", () => {
  const keys = Array.from({ length: 200 }, mintKey);
  for (const key of keys) expect(key).toMatch(/^vk_[0-9A-Za-z]{43}$/);
  expect(new Set(keys).size).toBe(200);
  expect(prefixOf(keys[0]!)).toHaveLength(11);
});

test("the checksum catches any single changed character", () => {
  const key = mintKey();
  expect(looksLikeKey(key)).toBe(true);
  for (let i = 3; i < key.length; i++) {
    const changed = key.slice(0, i) + (key[i] === "a" ? "b" : "a") + key.slice(i + 1);
    expect(looksLikeKey(changed)).toBe(false);
  }
  for (const other of ["", "vk_", key.slice(0, -1), `${key}a`, key.replace("vk_", "sk_")])
    expect(looksLikeKey(other)).toBe(false);
});

test("the stored hash is SHA-256 of the whole key", () => {
  expect(hashKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});

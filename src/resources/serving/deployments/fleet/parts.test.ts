import { expect, test } from "bun:test";
import type { ModelRow } from "../../models/table.ts";
import { cacheIdentity } from "./parts.ts";

test("blocks of prompts are never read with other numbers of keys and values, or another context", () => {
  const base = { id: "mdl_1", sizeBytes: 10, fileMtimeMs: 5 } as ModelRow;
  const identities = [
    { contextLength: 512, parallel: 1, kvType: "f16" },
    { contextLength: 512, parallel: 1, kvType: "q8_0" },
    { contextLength: 1024, parallel: 1, kvType: "f16" },
  ] as const;
  expect(new Set(identities.map((size) => cacheIdentity(base, size))).size).toBe(3);
  expect(cacheIdentity(base, { ...identities[0], parallel: 4 })).toBe(cacheIdentity(base, identities[0]));
});

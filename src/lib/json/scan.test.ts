import { describe, expect, test } from "bun:test";
import { createJsonScan, jsonExcess } from "./scan.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const scanned = (text: string, maxDepth: number, maxValues: number) =>
  jsonExcess(bytesOf(text), { maxDepth, maxValues });

/** The smallest limits that a text passes, found from outside. */
async function measured(text: string): Promise<{ depth: number; values: number }> {
  let [depth, values] = [0, 0];
  while ((await scanned(text, depth, 1e9)) === "depth") depth++;
  while ((await scanned(text, 1e9, values)) === "values") values++;
  return { depth, values };
}

/** The same measure, naively: one character after the other. */
function depthOf(text: string): number {
  let [depth, deepest, inString] = [0, 0, false];
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (inString && c === "\\") i++;
    else if (c === '"') inString = !inString;
    else if (!inString && (c === "[" || c === "{")) deepest = Math.max(deepest, ++depth);
    else if (!inString && (c === "]" || c === "}")) depth--;
  }
  return deepest;
}

describe("the scan of a JSON text", () => {
  test.each([
    ["a number", "1", 0, 0],
    ["an empty object", "{}", 1, 1],
    ["a list", "[1,2,3]", 1, 3],
    ["brackets in a string", '{"a":[{"b":[]}],"c":"[[[,,,"}', 4, 5],
    ["escapes", '{"\\"[,":"\\\\","x":[1]}', 2, 3],
    ["long strings", `["${"[".repeat(9_000)}\\"${",".repeat(9_000)}\\\\",[]]`, 2, 3],
    ["a string without an end", `["${"[".repeat(5_000)}`, 1, 1],
  ])("%s", async (_name, text, depth, values) => {
    expect(await measured(text)).toEqual({ depth, values });
  });

  test("agrees with a naive measure on generated texts, also when a string crosses a step", async () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff;
      return (seed >>> 8) % below;
    };
    const parts = ["[", "]", "{", "}", ",", '"', '\\"', "\\\\", "x".repeat(5_000), "x", '"y"', '"\\\\"', "\\"];
    for (let i = 0; i < 300; i++) {
      const text = Array.from({ length: 60 }, () => parts[random(parts.length)]).join("");
      const deepest = depthOf(text);
      expect(await scanned(text, deepest, 1e9)).toBeUndefined();
      if (deepest > 0) expect(await scanned(text, deepest - 1, 1e9)).toBe("depth");
    }
  });

  test("counts the fields of one object, not those of all", async () => {
    const most = (text: string, maxFields: number) =>
      jsonExcess(bytesOf(text), { maxDepth: 64, maxValues: 1e9, maxFields });
    const object = (fields: number) => `{${Array.from({ length: fields }, (_, i) => `"k${i}":[1,2,3]`).join()}}`;
    expect(await most(object(5), 5)).toBeUndefined();
    expect(await most(object(6), 5)).toBe("fields");
    expect(await most(`[${object(5)},{"a":${object(5)},"b":${object(5)}}]`, 5)).toBeUndefined();
    expect(await most(`[${object(5)},{"a":${object(6)}}]`, 5)).toBe("fields");
    expect(await most("[1,2,3,4,5,6,7]", 5)).toBeUndefined();
  });

  test("goes through a long text in steps, also inside a string", () => {
    const text = bytesOf(`["${"\\n".repeat(1 << 20)}","${"\\\\".repeat(1 << 20)}",[1]]`);
    const scan = createJsonScan(text, { maxDepth: 2, maxValues: 4 });
    let steps = 1;
    for (let step = scan(); step === "more"; step = scan()) steps++;
    expect(steps).toBeGreaterThan(3);
    expect(createJsonScan(text, { maxDepth: 1, maxValues: 4 })()).toBe("more"); // the excess lies behind the first step
  });
});

import { describe, expect, test } from "bun:test";
import { MUST_ACCEPT, MUST_REFUSE } from "../../../test/json_suite.ts";
import { ListExcess, type ListOptions, parseWithList } from "./list.ts";

const wide = { name: "rows", maxElements: 1e6, maxElementBytes: 1e6, maxRestBytes: 1e6 };
const parse = (text: string, options: Partial<ListOptions> = {}) =>
  parseWithList(new TextEncoder().encode(text), { ...wide, element: (one) => JSON.parse(one), ...options });

/** The result of JSON.parse for a text: the value, or that it throws. */
const judged = (text: string): unknown => {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return "refused";
  }
};
const judgedInPieces = (text: string): Promise<unknown> =>
  parse(text).then(
    (value) => ({ value }),
    () => "refused",
  );

describe("a text with a long list gives the result of JSON.parse", () => {
  test("each case of the suite works as an element, as the list, and beside the list", async () => {
    for (const text of [...MUST_ACCEPT, ...MUST_REFUSE])
      for (const whole of [
        `{"rows":[${text}]}`,
        `{"rows":[1,${text} , {"a":"]"}],"x":2}`,
        `{"rows":${text}}`,
        `{"x":${text},"rows":[{"rows":[1]}]}`,
        text,
      ])
        expect([whole, await judgedInPieces(whole)]).toEqual([whole, judged(whole)]);
  });

  test.each([
    '{"rows":[]}',
    '{"rows":[ \n ]}',
    '{"rows":[1,]}',
    '{"rows":[,1]}',
    '{"rows":[1}',
    '{"rows":[{"a":1]}]}',
    '{"rows":[1]',
    '{"rows":[1],"rows":[2,3]}',
    '{"rows":[1],"rows":5}',
    '{"rows":5,"rows":[1]}',
    '{"\\u0072ows":[1]}',
    '{"a":{"rows":[1]},"rows":[2]}',
    '{"a":"rows","b":[1]}',
    '{"a":[{"rows":[1]}]}',
    '[{"rows":[1]}]',
    '{"__proto__":{"x":1},"rows":[1]}',
    '{"rows":[1] [2]}',
    '{"rows" [1]}',
    '{:"rows":[1]}',
    '{"rows":[1]}}',
    '{"rows":["\\"]","[",{"k":"\\\\"}]}',
    '{"x":"a\\"b","rows":[1,2]}',
    '{"rows":[\ufeff1]}',
    "",
  ])("%s", async (text) => {
    expect(await judgedInPieces(text)).toEqual(judged(text));
  });

  test("strings longer than one chunk are read, with escapes at any position", async () => {
    for (const before of [4090, 4094, 4095, 4096, 4097, 9000])
      for (const tail of ["", "\\\\", '\\"', '\\",[', "\\n".repeat(3000)]) {
        const text = `{"rows":["${"x".repeat(before)}${tail}",2],"y":"${"[".repeat(before)}${tail}"}`;
        expect(await judgedInPieces(text)).toEqual(judged(text));
      }
  });
});

test("bytes that are not UTF-8 are refused in an element and beside it", async () => {
  for (const text of ['{"rows":["x"]}', '{"rows":[],"y":"x"}']) {
    const bytes = new TextEncoder().encode(text);
    bytes[bytes.indexOf(120)] = 0xff;
    await expect(parseWithList(bytes, { ...wide, element: (one) => JSON.parse(one) })).rejects.toThrow(TypeError);
  }
});

test("a limit is checked before the elements after it are parsed", async () => {
  const limit = async (text: string, options: Partial<ListOptions>) => {
    let parsed = 0;
    const counting = (one: string) => {
      parsed++;
      return JSON.parse(one);
    };
    const error = await parse(text, { ...options, element: counting }).catch((thrown) => thrown);
    return error instanceof ListExcess ? [error.limit, error.index, parsed] : error;
  };
  expect(await limit('{"rows":[1,2,3,4]}', { maxElements: 2 })).toEqual(["maxElements", 2, 2]);
  expect(await limit('{"rows":[1,"xxxxxxxx",3]}', { maxElementBytes: 5 })).toEqual(["maxElementBytes", 1, 1]);
  expect(await limit('{"rows":[1],"y":"xxxxxxxxxxxxxx"}', { maxRestBytes: 16 })).toEqual(["maxRestBytes", 0, 1]);
  expect(await limit('{"y":[1,2,3,4,5,6,7,8],"rows":[1]}', { maxRestBytes: 16 })).toEqual(["maxRestBytes", 0, 0]);
  expect(await parse('{"rows":[1,2]}', { maxElements: 2, maxElementBytes: 1 })).toEqual({ rows: [1, 2] });
});

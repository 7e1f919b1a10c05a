import { expect, test } from "bun:test";
import { z } from "zod";
import { numberText } from "./schema.ts";

test("a number in a query: a blank text is no number, and a limit holds", () => {
  const Query = z.object({ step: numberText(z.int().min(0).max(9)).optional() });
  const read = (step: unknown) => Query.safeParse({ step });
  expect(read("7").data).toEqual({ step: 7 });
  expect(read("0").data).toEqual({ step: 0 });
  expect(read(undefined).data).toEqual({});
  for (const text of ["", " ", "\t", "x", "10", "-1", "1.5", "NaN", ["1", "2"], null])
    expect([text, read(text).success]).toEqual([text, false]);
});

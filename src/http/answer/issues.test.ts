import { expect, test } from "bun:test";
import { z } from "zod";
import { deepest, schemaError } from "./issues.ts";

const Part = z.object({ text: z.string() });
const Message = z.object({ role: z.string(), content: z.union([z.string(), z.array(Part)]) });

/** The parameter that an error names if the value does not fit. */
function paramOf(form: z.ZodType, value: unknown): string | null {
  const issue = form.safeParse(value).error?.issues[0];
  return schemaError(issue && deepest(issue)).param;
}

test.each([
  ["the text first", z.union([z.string(), z.array(Message)])],
  ["the text last", z.union([z.array(Message), z.string()])],
])("an error of a union names the field that is wrong, not the union: %s", (_name, input) => {
  const form = z.object({ input });
  const message = (content: unknown) => ({ input: [{ role: "user", content }] });
  expect(paramOf(form, message([{ text: "a" }, { text: 7 }]))).toBe("/input/0/content/1/text");
  expect(paramOf(form, { input: [{ role: 5, content: "a" }] })).toBe("/input/0/role");
  expect(paramOf(form, { input: 7 })).toBe("/input");
});

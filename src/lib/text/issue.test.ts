import { expect, test } from "bun:test";
import { z } from "zod";
import { plainIssue } from "./issue.ts";

const CASES: [plain: string, schema: z.ZodType, value: unknown][] = [
  ["is required: send a list", z.array(z.string()), undefined],
  ["is required: send a text", z.string(), undefined],
  ["must be a text, not a number", z.string(), 7],
  ["must be a number, not a text", z.int(), "x"],
  ["must be true or false, not null", z.boolean(), null],
  ["must be an object, not a list", z.object({}), []],
  ['must be one of "sft", "dpo"', z.enum(["sft", "dpo"]), "x"],
  ['must be "latest"', z.literal("latest"), "x"],
  ["must have at least 1 characters", z.string().min(1), ""],
  ["must have at most 3 characters", z.string().max(3), "four"],
  ["must have at least 2 items", z.array(z.string()).min(2), []],
  ["must be at least 1", z.number().min(1), 0],
  ["must be more than 0", z.number().gt(0), 0],
  ["must be at most 5", z.number().max(5), 6],
  ['unknown field "naem": remove it', z.strictObject({}), { naem: 1 }],
];

test.each(CASES)("%s", (plain, schema, value) => {
  expect(plainIssue(schema.safeParse(value).error?.issues[0]?.message ?? "")).toBe(plain);
});

test("our own messages stay as they are", () => {
  expect(plainIssue("must name a model: send base_model")).toBe("must name a model: send base_model");
});

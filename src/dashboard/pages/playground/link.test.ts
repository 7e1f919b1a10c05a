import { expect, test } from "bun:test";
import { playgroundHref } from "./link.ts";

const queryOf = (href: string) => Object.fromEntries(new URL(href, "http://x").searchParams);

test("a link has what answers and how, and no empty fields", () => {
  const columns = [
    { kind: "run", job: "job_1", checkpoint: "ckpt_2" } as const,
    { kind: "agent", name: "a b" } as const,
  ];
  const format = { type: "json_schema", json_schema: { schema: { type: "object" } } };
  const sampling = { temperature: 0, max_completion_tokens: 64, response_format: format, top_p: 1 };
  expect(queryOf(playgroundHref({ columns, system: "Be brief.", tools: [], sampling }))).toEqual({
    cols: "job_1:ckpt_2,agent:a%20b",
    temperature: "0",
    max_tokens: "64",
    system: "Be brief.",
    schema: '{"type":"object"}',
  });
  expect(queryOf(playgroundHref({ models: ["demo", "verk-tiny"] }))).toEqual({ models: "demo,verk-tiny" });
  expect(playgroundHref({})).toBe("/playground");
});

test("a text that is too long for an address is left out, and the rest stays", () => {
  expect(queryOf(playgroundHref({ models: ["demo"], prompt: "x".repeat(9_000) }))).toEqual({ models: "demo" });
});

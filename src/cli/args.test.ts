import { describe, expect, test } from "bun:test";
import { UsageError } from "../lib/errors.ts";
import { command, type Flag, momentOf, parse } from "./args.ts";

const spec = command({
  summary: "",
  takes: ["id"],
  flags: {
    data: { type: "string", value: "DIR", doc: "" },
    scope: { type: "string", multiple: true, doc: "" },
    json: { type: "boolean", doc: "" },
  },
  examples: [],
  run: () => 0,
});
const parsed = (...argv: string[]) => parse("keys revoke", spec, argv);
const refusal = (...argv: string[]) => {
  try {
    parsed(...argv);
  } catch (error) {
    if (error instanceof UsageError && error.exitCode === 2) return error.message;
    throw error;
  }
  return "nothing was refused";
};

test("flags get their declared types, given or not", () => {
  expect(parsed("key_1")).toEqual({ values: { data: undefined, scope: [], json: false }, positionals: ["key_1"] });
  expect(parsed("--scope", "read", "key_1", "--json", "--scope=detect", "--data", "/d").values).toEqual({
    data: "/d",
    scope: ["read", "detect"],
    json: true,
  });
});

test("a lone dash is a value, and the last argument may be one that can be left out", () => {
  const optional = command({ ...spec, takes: ["id", "file?"] });
  expect(parse("x", optional, ["key_1", "-", "--data", "-"])).toMatchObject({
    values: { data: "-" },
    positionals: ["key_1", "-"],
  });
  expect(parse("x", optional, ["key_1"]).positionals).toEqual(["key_1"]);
  expect(() => parse("x", optional, [])).toThrow("id is missing");
  expect(() => parse("x", optional, ["a", "b", "c"])).toThrow('unexpected argument "c"');
});

test("a value that looks like a flag must be attached with an equals sign", () => {
  expect(parsed("key_1", "--data=--odd").values["data"]).toBe("--odd");
  expect(refusal("key_1", "--data", "--json")).toContain("--data needs a value: --data DIR");
});

test("an empty text is a value only where the flag takes it", () => {
  const notes = { type: "string", doc: "" } as const;
  const withNotes = (flag: Flag) => parse("x", { ...spec, takes: [], flags: { notes: flag } }, ["--notes", ""]).values;
  expect(withNotes({ ...notes, mayBeEmpty: true })).toEqual({ notes: "" });
  expect(() => withNotes(notes)).toThrow("--notes needs a value");
});

test("after a double dash everything is an argument", () => {
  expect(parsed("--", "--json").positionals).toEqual(["--json"]);
});

describe("what was not declared is refused", () => {
  test.each([
    [["key_1", "--dta", "/d"], "unknown flag --dta. Did you mean --data?"],
    [["key_1", "-x"], "unknown flag -x"],
    [["key_1", "--json=yes"], "--json takes no value"],
    [["key_1", "--data"], "--data needs a value"],
    [["key_1", "--data", ""], "--data needs a value"],
    [[], "id is missing"],
    [["key_1", "key_2"], 'unexpected argument "key_2"'],
  ])("%p", (argv, message) => expect(refusal(...argv)).toContain(message));
});

describe("a moment", () => {
  const now = Date.UTC(2026, 0, 1);
  test.each([
    ["90m", "2026-01-01T01:30:00.000Z"],
    ["30d", "2026-01-31T00:00:00.000Z"],
    ["1d12h", "2026-01-02T12:00:00.000Z"],
    ["2027-03-04", "2027-03-04T00:00:00.000Z"],
  ])("%s is %s", (text, at) => expect(momentOf("expires", text, now)).toBe(at));
  test.each(["", "30", "d", "-3d", "1y", "tomorrow", "2026-99-99", "99999999999d"])(
    "%p is refused by the flag's name",
    (text) => expect(() => momentOf("expires", text, now)).toThrow("--expires"),
  );
});

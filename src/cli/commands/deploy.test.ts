import { expect, test } from "bun:test";
import { CreateDeployment } from "../../resources/serving/deployments/schema.ts";
import { bodyOf, type FieldFlags, fieldsOf } from "../field_flags.ts";
import { SETTING_FLAGS } from "./deploy.ts";

const needed = { model: "verk-tiny", name: "demo" };

test("the body has the given settings only, in the units of the API", () => {
  const flags = {
    "min-replicas": "0",
    "max-replicas": undefined,
    parallel: "4",
    "context-length": "4096",
    "idle-timeout": "10m",
    region: undefined,
    pinned: true,
    capture: "full",
    json: true,
  };
  const body = bodyOf(SETTING_FLAGS, flags);
  expect(body).toEqual({
    min_replicas: 0,
    parallel: 4,
    context_length: 4096,
    idle_timeout_seconds: 600,
    pinned: true,
    capture: "full",
  });
  expect(CreateDeployment.parse({ ...needed, ...body })).toMatchObject(body);
  expect(bodyOf(SETTING_FLAGS, { pinned: false })).toEqual({});
});

test("a value that is no number or no duration is refused with the name of its flag", () => {
  expect(() => bodyOf(SETTING_FLAGS, { parallel: "many" })).toThrow('--parallel: expected a whole number, not "many"');
  expect(() => bodyOf(SETTING_FLAGS, { "idle-timeout": "soon" })).toThrow(/^--idle-timeout: expected a duration/);
});

test("errors of the API name the flag of a field", () => {
  expect(fieldsOf(SETTING_FLAGS)).toMatchObject({
    idle_timeout_seconds: "--idle-timeout",
    min_replicas: "--min-replicas",
  });
});

test("the help names the defaults of the server", () => {
  const server: Record<string, unknown> = { ...CreateDeployment.parse(needed), max_replicas: 1 };
  const named = Object.entries(SETTING_FLAGS).flatMap(([flag, { doc, sets }]) => {
    const [, text] = / \(default (\w+)\)$/.exec(doc) ?? [];
    return text === undefined ? [] : [{ sets, text, body: bodyOf(SETTING_FLAGS, { [flag]: text }) }];
  });
  expect(named.map(({ sets }) => sets)).toEqual(["min_replicas", "max_replicas", "idle_timeout_seconds", "capture"]);
  for (const { sets, body } of named) expect(body).toEqual({ [sets]: server[sets] });
});

test("a table with a field that the request lacks, or with a number as text, does not compile", () => {
  const flag = { type: "string", doc: "" } as const;
  // @ts-expect-error there is no such field
  const misspelt: FieldFlags<CreateDeployment> = { a: { ...flag, sets: "min_replica" } };
  // @ts-expect-error a number needs a reader
  const unread: FieldFlags<CreateDeployment> = { b: { ...flag, sets: "min_replicas" } };
  expect(Object.keys({ ...misspelt, ...unread })).toEqual(["a", "b"]);
});

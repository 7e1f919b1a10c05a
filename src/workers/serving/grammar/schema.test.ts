import { describe, expect, test } from "bun:test";
import { Ajv2020 } from "ajv/dist/2020";
import addFormats from "ajv-formats";
import { parseGbnf, sentence } from "../../../../test/serving/gbnf.ts";
import { randomSchema } from "../../../../test/serving/random_schema.ts";
import { sweep } from "../../../../test/sweep.ts";
import { AppError } from "../../../lib/errors.ts";
import { schemaGrammar } from "./schema.ts";

const SCHEMAS = sweep({ quick: 40, full: 200 });

function randomFrom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const ajv = new Ajv2020({ strict: false });
addFormats.default(ajv);

/** Checks that all `count` sentences are valid JSON for the schema, and returns them. */
function allValid(schema: object, count = 40, seed = 1): string[] {
  const valid = ajv.compile(schema);
  const rules = parseGbnf(schemaGrammar(schema, "/s"));
  const random = randomFrom(seed);
  return Array.from({ length: count }, () => {
    const text = sentence(rules, random);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw new Error(`not JSON: ${text}\n${JSON.stringify(schema)}`);
    }
    if (!valid(value)) throw new Error(`${JSON.stringify(valid.errors)}\n${text}\n${JSON.stringify(schema)}`);
    return text;
  });
}

const refusal = (schema: unknown): string | null => {
  try {
    schemaGrammar(schema, "/s");
  } catch (error) {
    if (error instanceof AppError && error.status === 422) return error.param;
    throw error;
  }
  return "accepted";
};

describe("text written under a grammar satisfies the schema", () => {
  test.each<[string, object]>([
    ["anything", {}],
    ["types", { type: ["string", "null", "boolean"] }],
    ["an object without a word about its fields", { type: "object" }],
    [
      "required and optional fields",
      { properties: { a: { type: "integer" }, b: {}, c: { type: "null" } }, required: ["b"] },
    ],
    ["a map", { type: "object", additionalProperties: { type: "integer" } }],
    [
      "named fields beside a map of others",
      { properties: { ab: { type: "string" }, a: { type: "null" } }, additionalProperties: { type: "integer" } },
    ],
    ["an enum of mixed values", { enum: ['a"b\\c\n', 1, null, true, { x: [1] }] }],
    ["an enum with a type", { type: "string", enum: ["a", 1, "b"] }],
    ["const", { const: "é😀" }],
    ["a list", { type: "array", items: { type: "boolean" }, minItems: 2, maxItems: 4 }],
    ["a list of at most very many", { type: "array", items: { type: "null" }, maxItems: 2147483647 }],
    ["a list of at most none", { type: "array", maxItems: 0 }],
    ["a tuple", { type: "array", prefixItems: [{ type: "integer" }, { type: "string" }], items: false, minItems: 1 }],
    ["a tuple and more", { type: "array", prefixItems: [{ type: "integer" }], items: { type: "null" }, maxItems: 4 }],
    [
      "anyOf with common fields",
      {
        type: "object",
        properties: { a: { type: "integer" } },
        required: ["a"],
        anyOf: [{ properties: { b: { type: "null" } }, required: ["b"] }, {}],
      },
    ],
    ["oneOf", { oneOf: [{ type: "string" }, { type: "integer" }] }],
    [
      "allOf",
      {
        allOf: [
          { properties: { a: { type: "number" } }, required: ["a"] },
          { properties: { a: { minimum: 3, maximum: 9 }, b: { type: "null" } } },
        ],
      },
    ],
    [
      "allOf of a closed and an open one",
      {
        allOf: [{ properties: { a: {} }, additionalProperties: false }, { properties: { a: { type: "null" }, b: {} } }],
      },
    ],
    ["references", { $defs: { n: { type: "integer" } }, type: "array", items: { $ref: "#/$defs/n" } }],
    [
      "recursion",
      {
        $defs: {
          t: {
            type: "object",
            properties: { v: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/t" }, { type: "null" }] } },
            required: ["v", "next"],
          },
        },
        $ref: "#/$defs/t",
      },
    ],
    ["recursion of the whole", { type: "object", properties: { kids: { type: "array", items: { $ref: "#" } } } }],
    ["lengths", { type: "string", minLength: 2, maxLength: 5 }],
    ["a long minimum", { type: "string", minLength: 2500 }],
    ["a long maximum", { type: "string", maxLength: 5000 }],
    ["integers", { type: "integer" }],
    ["integers from", { type: "integer", minimum: 95 }],
    ["integers to", { type: "integer", exclusiveMaximum: -7 }],
    ["integers between", { type: "integer", minimum: -123, maximum: 4567 }],
    ["safe integers", { type: "integer", minimum: -9007199254740991, maximum: 9007199254740991 }],
    ["numbers", { type: "number" }],
    ["a share", { type: "number", minimum: 0, maximum: 1 }],
    ["an open share", { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 }],
    ["numbers within a whole", { type: "number", minimum: 2.25, exclusiveMaximum: 2.75 }],
    ["numbers between", { type: "number", minimum: -12.5, maximum: 110.125 }],
    ["negative numbers", { type: "number", exclusiveMaximum: -0.001 }],
    ["very small bounds", { type: "number", minimum: 0, maximum: 1e-7 }],
    [
      "names that need escapes",
      {
        properties: { 'a"b': { type: "null" }, "c\\d": { type: "null" }, "é\n": { type: "null" } },
        required: ['a"b', "c\\d", "é\n"],
      },
    ],
  ])("%s", (_name, schema) => {
    allValid(schema, "minLength" in schema && (schema.minLength as number) > 100 ? 3 : 60);
  });

  test.each([
    "^[a-z]+$",
    "^\\d{3}-\\d{4}$",
    "^(foo|ba[rz])?$",
    "b.d",
    '^[^a-c"]{2,4}$',
    "^\\w+@\\w+\\.com$|^none$",
    "^(?:a|b){3}$",
    "^\\S\\s?$",
    "^\\\\\\u00e9[\\]\\-x]*?$",
    "^(?<year>\\d{4})$",
  ])("pattern %s", (pattern) => {
    allValid({ type: "string", pattern }, 80);
  });

  test.each(["date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri"])(
    "format %s",
    (format) => {
      allValid({ type: "string", format }, 100);
    },
  );

  test("random schemas", () => {
    for (let seed = 0; seed < SCHEMAS; seed++) allValid(randomSchema(randomFrom(seed)), 5, seed);
  });

  test("json_object is any object", () => {
    const rules = parseGbnf(schemaGrammar({ type: "object" }, "schema"));
    for (let seed = 0; seed < 100; seed++) expect(JSON.parse(sentence(rules, randomFrom(seed)))).toBeInstanceOf(Object);
  });
});

test("properties come in the order of the schema, and optional ones may be missing", () => {
  const texts = allValid({ type: "object", properties: { z: { const: 1 }, a: { const: 2 } }, required: ["a"] }, 50);
  const compact = new Set(texts.map((text) => text.replace(/\s/g, "")));
  expect([...compact].sort()).toEqual(['{"a":2}', '{"z":1,"a":2}']);
});

test.each<[string, unknown, string]>([
  ["not", { properties: { a: { not: {} } } }, "/s/properties/a/not"],
  ["if", { if: {} }, "/s/if"],
  ["uniqueItems", { type: "array", items: { uniqueItems: true } }, "/s/items/uniqueItems"],
  ["multipleOf", { type: "number", multipleOf: 0.5 }, "/s/multipleOf"],
  ["an unknown type", { type: "text" }, "/s/type"],
  ["an unknown format", { type: "string", format: "colour" }, "/s/format"],
  ["lookahead", { type: "string", pattern: "^(?=a)b$" }, "/s/pattern"],
  ["repetitions inside repetitions", { type: "string", pattern: "^(a{0,2000}){0,2000}b$" }, "/s/pattern"],
  ["a long row of what may be missing", { type: "string", pattern: ".*".repeat(200) }, "/s/pattern"],
  [
    "many alternatives, over and over",
    { type: "string", pattern: `^(${Array(240).fill("a*").join("|")})*$` },
    "/s/pattern",
  ],
  ["a broken pattern", { type: "string", pattern: "(" }, "/s/pattern"],
  ["a reference to elsewhere", { $ref: "https://example.com/s" }, "/s/$ref"],
  ["a reference to nothing", { items: { $ref: "#/$defs/x" } }, "/s/items/$ref"],
  ["a circle of references", { allOf: [{ $ref: "#/$defs/a" }], $defs: { a: { $ref: "#/$defs/a" } } }, "/s/allOf/0"],
  ["a schema that is only itself", { anyOf: [{ type: "null" }, { $ref: "#" }] }, "/s/anyOf/1/$ref"],
  ["bounds without a number between", { type: "integer", minimum: 3, maximum: 2 }, "/s"],
  ["types that exclude each other", { allOf: [{ type: "string" }, { type: "null" }] }, "/s"],
  ["values that the bounds exclude", { enum: [1, 2], minimum: 3 }, "/s/enum"],
  ["a value that is not listed", { const: 1, enum: [2] }, "/s/enum"],
  ["a pattern beside values", { enum: ["a", "b"], pattern: "^b" }, "/s/pattern"],
  ["a pattern beside a format", { type: "string", pattern: "^2", format: "date" }, "/s/pattern"],
  ["a length beside a format", { type: "string", maxLength: 5, format: "date" }, "/s/format"],
  ["a required name that every object has", { properties: { a: {} }, required: ["toString"] }, "/s/required"],
  ["names that are no texts", { type: "object", required: [1] }, "/s/required"],
  ["names that are no list, to be merged", { allOf: [{ required: 5 }, { required: ["a"] }] }, "/s/allOf/0/required"],
  ["an enum that is no list", { enum: "a" }, "/s/enum"],
  ["a count that is no number", { type: "array", minItems: "3" }, "/s/minItems"],
  ["a count that is not whole", { type: "array", minItems: 1.5 }, "/s/minItems"],
  ["an infinite bound", { type: "integer", minimum: Number.POSITIVE_INFINITY }, "/s/minimum"],
  ["a reference that cannot be decoded", { $ref: "#/%zz" }, "/s/$ref"],
  ["a slash in a name", { properties: { "a/b~": { not: {} } } }, "/s/properties/a~1b~0/not"],
])("%s is refused with its position", (_name, schema, param) => {
  expect(refusal(schema)).toBe(param);
});

test.each<[string, object, string[]]>([
  ["bounds", { type: "integer", enum: [1, 3, 5, 7], minimum: 3, exclusiveMaximum: 7 }, ["3", "5"]],
  ["bounds of another part", { allOf: [{ enum: [1, 2, 3] }, { minimum: 3 }] }, ["3"]],
  ["lengths, in characters", { enum: ["a", "😀😀", "ccc"], minLength: 2, maxLength: 2 }, ['"😀😀"']],
  ["counts", { enum: [[1], [2, 3]], minItems: 2 }, ["[2,3]"]],
  ["required names", { enum: [{ a: 1 }, { b: 1 }], required: ["b"] }, ['{"b":1}']],
  ["what is null says nothing", { enum: ["a"], minLength: null, pattern: null }, ['"a"']],
])("values are kept as far as the other keywords allow them: %s", (_name, schema, expected) => {
  const rules = parseGbnf(schemaGrammar(schema, "/s"));
  const texts = Array.from({ length: 40 }, (_, seed) => sentence(rules, randomFrom(seed)));
  expect([...new Set(texts)].sort()).toEqual(expected);
});

test.each([
  "^[a-z]+(-[a-z0-9]+)*$",
  "^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,6}$",
  "^#([0-9a-f]{3}|[0-9a-f]{6})$",
  "^\\+?[0-9 ()-]{7,20}$",
  "^(\\w+\\s?){1,10}$",
  `^(${Array.from({ length: 200 }, (_, i) => `code${i}`).join("|")})$`,
  "^[A-Z]{2}\\d{2}( ?[A-Z0-9]{4}){2,7}$",
])("a common pattern is accepted: %s", (pattern) => {
  allValid({ type: "string", pattern }, 20);
});

test("a schema that is too large is refused, not compiled forever", () => {
  const wide = {
    type: "object",
    properties: Object.fromEntries(Array.from({ length: 6000 }, (_, i) => [`p${i}`, { type: "null" }])),
  };
  expect(refusal(wide)).toStartWith("/s/");
  const deep = Array.from({ length: 200 }).reduce<object>((inner) => ({ items: inner }), { type: "null" });
  expect(refusal(deep)).toStartWith("/s/items");
  const values = Array.from({ length: 20_000 }, (_, i) => `value ${i}`);
  expect(refusal({ enum: values })).toBe("/s");
  expect(refusal({ enum: values.slice(0, 3_000) })).toBe("accepted");
  const long = Array.from({ length: 500 }, (_, i) => [`p${i}`, { type: "string", maxLength: 1000 + i }]);
  expect(refusal({ properties: Object.fromEntries(long) })).toStartWith("/s/properties/");
  expect(refusal({ properties: { ["p".repeat(100_000)]: true }, additionalProperties: true })).toBe(
    "/s/additionalProperties",
  );
});

// tier: all (many jails)
/** json_schema against ajv, which is the reference here: the same verdict for every schema and every value. */
import { beforeAll, expect, test } from "bun:test";
import Ajv2020 from "ajv/dist/2020";
import { LIBRARY } from "../../src/lib/rewards/library.ts";
import { openPlainPython, type Row } from "./plain_python.ts";

let python: Awaited<ReturnType<typeof openPlainPython>>;
beforeAll(async () => {
  python = await openPlainPython();
}, 60_000);

const { source } = LIBRARY["json_schema"]!;

const SCHEMAS: unknown[] = [
  {},
  { type: "integer" },
  { type: ["string", "null"] },
  { enum: [1, "a", null, { a: 1 }] },
  { const: [1, 2] },
  { const: false },
  { minimum: 1, exclusiveMaximum: 3 },
  { multipleOf: 0.5 },
  { minLength: 2, maxLength: 3, pattern: "^a" },
  { pattern: "b$" },
  { type: "object", properties: { a: { type: "number" } }, required: ["a"], additionalProperties: false },
  { patternProperties: { "^x": { type: "string" } }, additionalProperties: { type: "number" } },
  { propertyNames: { maxLength: 1 }, minProperties: 1, maxProperties: 2 },
  { dependentRequired: { a: ["b"] } },
  { dependentSchemas: { a: { required: ["b"] } } },
  { prefixItems: [{ type: "number" }, { type: "string" }], items: false },
  { items: { type: "number" }, minItems: 1, maxItems: 2 },
  { uniqueItems: true },
  { contains: { const: 1 }, minContains: 1, maxContains: 2 },
  { allOf: [{ type: "number" }, { minimum: 2 }] },
  { anyOf: [{ type: "string" }, { minimum: 2, type: "number" }] },
  { oneOf: [{ type: "number" }, { minimum: 2 }] },
  { not: { type: "object" } },
  // biome-ignore lint/suspicious/noThenProperty: a keyword
  { if: { type: "number" }, then: { minimum: 2 }, else: { type: "string" } },
  { $ref: "#/$defs/n", $defs: { n: { type: "number" } } },
  { $ref: "#n", $defs: { n: { $anchor: "n", type: "string" } } },
  { $defs: { t: { properties: { c: { $ref: "#/$defs/t" }, v: { type: "number" } } } }, $ref: "#/$defs/t" },
  { properties: { a: true }, unevaluatedProperties: false },
  { allOf: [{ properties: { a: true } }], anyOf: [{ properties: { b: true } }], unevaluatedProperties: false },
  { prefixItems: [true], unevaluatedItems: { type: "string" } },
  { pattern: "^(a|b$)" },
  { pattern: "^.\\w?$" },
  { $id: "https://a.example/s/root", $defs: { n: { $id: "n", type: "number" } }, $ref: "n" },
  { $id: "urn:x:y", $defs: { n: { type: "string" } }, anyOf: [{ $ref: "urn:x:y#/$defs/n" }, { type: "null" }] },
  {
    anyOf: [{ enum: [{ $anchor: "n", type: "null" }] }, { $ref: "#n" }],
    $defs: { n: { $anchor: "n", type: "number" } },
  },
  false,
];
const VALUES: unknown[] = [
  null,
  true,
  false,
  0,
  1,
  1.0,
  2,
  2.5,
  3,
  -1,
  "",
  "a",
  "ab",
  "abcd",
  "b",
  "a\nb\n",
  [],
  [1],
  [1, 2],
  [1, 1],
  [1, "a"],
  ["a"],
  [1, 2, 1, 1],
  [true, 1],
  [{ a: 1 }, { a: 1.0 }],
  {},
  { a: 1 },
  { a: "1" },
  { a: 1, b: 2 },
  { x: "s" },
  { x: 1 },
  { ab: 1 },
  { c: { c: { v: "no" } } },
  "b\n",
  "\u00e9",
  "a\r",
  { c: { v: 1 } },
  { a: 1, b: 1, c: 1 },
];

test("agrees with ajv for every schema and value", () => {
  const disagreed: unknown[] = [];
  for (const schema of SCHEMAS) {
    if (typeof schema === "boolean") continue; // a row's column is an object or a text
    const valid = new Ajv2020({ strict: false }).compile(schema as object);
    const rows: Row[] = VALUES.map((value) => ({ completion: JSON.stringify(value), schema }));
    const got = python.score(source, rows);
    for (const [n, value] of VALUES.entries()) {
      if (Number(valid(value)) !== got[n]) disagreed.push({ schema, value, ajv: valid(value), ours: got[n] });
    }
  }
  expect(disagreed).toEqual([]);
});

test("only the items that `contains` found count as evaluated (ajv takes all items)", () => {
  const schema = { contains: { const: 1 }, unevaluatedItems: { type: "string" } };
  const rows = ["[1, 2]", '[1, "a"]', '["a"]'].map((completion) => ({ completion, schema }));
  expect(python.score(source, rows)).toEqual([0, 1, 0]);
});

test("decimal fractions are exact, and $dynamicRef finds the outermost (ajv does neither)", () => {
  const rows = ["0.3", "1e300", "0.35"].map((completion) => ({ completion, schema: { multipleOf: 0.1 } }));
  expect(python.score(source, rows)).toEqual([1, 1, 0]);
  const schema = {
    $id: "https://a.example/list",
    $ref: "tree",
    $defs: {
      strings: { $dynamicAnchor: "each", type: "string" },
      tree: {
        $id: "tree",
        type: "array",
        items: { $dynamicRef: "#each" },
        $defs: { any: { $dynamicAnchor: "each" } },
      },
    },
  };
  expect(
    python.score(
      source,
      ['["a"]', "[1]", "[]"].map((completion) => ({ completion, schema })),
    ),
  ).toEqual([1, 0, 1]);
});

test("the schema is a parameter, an object of the row or a text of the row", () => {
  const schema = { type: "number" };
  expect(python.score(source, [{ completion: "1" }, { completion: '"1"' }], { params: { schema } })).toEqual([1, 0]);
  const rows = [
    { completion: "1", schema: JSON.stringify(schema) },
    { completion: "1", schema: null },
  ];
  expect(python.score(source, rows)).toEqual([1, "none"]);
});

test("text that is no JSON gets 0, JSON that does not fit gets `otherwise`", () => {
  const params = { schema: { type: "number" }, otherwise: 0.25 };
  expect(python.score(source, [{ completion: "{" }, { completion: "```json\n{}\n```" }], { params })).toEqual([
    0, 0.25,
  ]);
});

test("a schema with a broken or circular reference is an error with a message", () => {
  const fails = (schema: unknown) => () => python.score(source, [{ completion: "1" }], { params: { schema } });
  expect(fails({ $ref: "#/$defs/x" })).toThrow(/which is not in it/);
  expect(fails({ $ref: "#" })).toThrow(/without end/);
  expect(fails({ $ref: "https://example.com/s" })).toThrow(/which is not in it/);
  expect(fails({ items: { items: { $ref: "#/$defs/x" } } })).not.toThrow(); // nothing leads there
});

// biome-ignore format: a table should look like one
test.each<[unknown, string]>([
  [{ properties: { a: { type: "strng" } } }, "'type' cannot be \"strng\""],
  [{ dependencies: { a: ["b"] } }, "'dependencies' is not in draft 2020-12"],
  [{ additionalItems: false }, "'additionalItems' is not in draft 2020-12"],
  [{ items: [{ type: "number" }] }, "where a schema should be"],
  [{ minimum: 1, exclusiveMinimum: true }, "'exclusiveMinimum' cannot be true"],
  [{ required: true }, "'required' cannot be true"],
  [{ minLength: "3" }, "'minLength' cannot be"],
  [{ multipleOf: 0 }, "'multipleOf' cannot be 0"],
  [{ enum: "a" }, "'enum' cannot be"],
  [{ anyOf: [] }, "'anyOf' cannot be []"],
  [{ properties: { a: 1 } }, "1 where a schema should be"],
  [{ pattern: "(" }, "unterminated"],
  [{ patternProperties: { "\\p{L}": true } }, "bad escape"],
  [{ $schema: "https://example.com/own", type: "number" }, "'$schema' cannot be"],
])("an invalid schema is an error for every value: %j", (schema, words) => {
  const fails = () => python.score(source, [{ completion: "null" }], { params: { schema } });
  expect(fails).toThrow(words);
});

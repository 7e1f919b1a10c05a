import { expect, test } from "bun:test";
import { numberIn, parsePrometheus } from "../../../../test/prometheus.ts";
import { type Family, familyText, labelText } from "./prometheus.ts";

const gauge = (samples: Family["samples"], help = "h"): Family => ({ name: "g", help, type: "gauge", samples });

test("a family is its help, its type and a line for each series", () => {
  const text = familyText([
    gauge([
      { labels: labelText({ a: "1", b: "x" }), value: 0.5 },
      { labels: "", value: -3 },
    ]),
  ]);
  expect(text).toBe('# HELP g h\n# TYPE g gauge\ng{a="1",b="x"} 0.5\ng -3\n');
});

test("whatever stands in a label or a help comes out of a reader as it went in", () => {
  const hostile = ['"', "\\", "\n", '\\"\n\\n', "a\r\tb", "}", ',x="', "", "é漢🙂", 'x"} 1\nevil 1'];
  const text = familyText([
    gauge(
      hostile.map((v, i) => ({ labels: labelText({ v, i: String(i) }), value: i })),
      "\\n\n",
    ),
  ]);
  const family = parsePrometheus(text).get("g");
  expect(family?.series.map(({ labels }) => labels["v"])).toEqual(hostile);
  expect(family?.help).toBe("\\n\n");
});

test("numbers of every kind are ones that Prometheus reads", () => {
  const values = [
    0,
    -0,
    1e21,
    1.5e-9,
    Number.MAX_SAFE_INTEGER,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    Number.NaN,
  ];
  const text = familyText([gauge(values.map((value, i) => ({ labels: labelText({ i: String(i) }), value })))]);
  expect(
    parsePrometheus(text)
      .get("g")
      ?.series.map(({ value }) => value),
  ).toEqual(values.map((v) => (v === 0 ? 0 : v)));
});

test("a histogram's buckets add up to its count, with and without labels", () => {
  const value = { bounds: [0.1, 1], counts: [2, 0, 3], sum: 9.5 };
  const read = parsePrometheus(
    familyText([
      {
        name: "h",
        help: "h",
        type: "histogram",
        samples: [
          { labels: "", value },
          { labels: 'a="b"', value },
        ],
      },
    ]),
  );
  for (const labels of [{}, { a: "b" }] as Record<string, string>[]) {
    const own = (name: string, more = {}) =>
      read.get("h")?.series.find((s) => s.name === name && Bun.deepEquals(s.labels, { ...labels, ...more }))?.value;
    expect([own("h_bucket", { le: "0.1" }), own("h_bucket", { le: "1" }), own("h_bucket", { le: "+Inf" })]).toEqual([
      2, 2, 5,
    ]);
    expect([own("h_sum"), own("h_count")]).toEqual([9.5, 5]);
  }
});

test("a family without samples is not mentioned", () => {
  expect(familyText([gauge([])])).toBe("");
  expect(numberIn(parsePrometheus(""), "g")).toBeUndefined();
});

test.each([
  ["no line feed at the end", "# HELP a b\n# TYPE a gauge\na 1"],
  ["a sample without a type", "a 1\n"],
  ["a series twice", '# HELP a b\n# TYPE a gauge\na{x="1"} 1\na{x="1"} 2\n'],
  ["a family in two places", "# HELP a b\n# TYPE a gauge\na 1\n# HELP c b\n# TYPE c gauge\nc 1\n# HELP a b\n"],
  ["an open quote", '# HELP a b\n# TYPE a gauge\na{x="1} 1\n'],
  ["an unknown escape", '# HELP a b\n# TYPE a gauge\na{x="\\t"} 1\n'],
  ["a word for a number", "# HELP a b\n# TYPE a gauge\na undefined\n"],
  [
    "buckets that fall",
    '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
  ],
])("the reader of the tests refuses %s", (_what, text) => {
  expect(() => parsePrometheus(text)).toThrow();
});

import { expect, test } from "bun:test";
import { otlpBody } from "./otlp.ts";
import { labelText } from "./prometheus.ts";

const times = { nowMs: 2_000, startMs: 1_000 };

test("counters and histograms are cumulative from the first start, gauges are of now", () => {
  const labels = labelText({ workspace: "ws_1", name: 'a "b"\\c\nd' });
  const body = otlpBody(
    [
      { name: "n_total", help: "N", type: "counter", samples: [{ labels, value: 3 }] },
      {
        name: "t",
        help: "T",
        type: "histogram",
        samples: [{ labels: "", value: { bounds: [1, 2], counts: [4, 0, 1], sum: 9 } }],
      },
      {
        name: "g",
        help: "G",
        type: "gauge",
        samples: [
          { labels: "", value: 0.5 },
          { labels: "", value: Number.NaN },
        ],
      },
      { name: "none", help: "-", type: "gauge", samples: [] },
    ],
    "1.2.3",
    times,
  );
  const { resource, scopeMetrics } = JSON.parse(body).resourceMetrics[0];
  expect(resource.attributes).toContainEqual({ key: "service.version", value: { stringValue: "1.2.3" } });
  const start = { startTimeUnixNano: "1000000000", timeUnixNano: "2000000000" };
  const attributes = [
    { key: "workspace", value: { stringValue: "ws_1" } },
    { key: "name", value: { stringValue: 'a "b"\\c\nd' } },
  ];
  expect(scopeMetrics[0].metrics).toEqual([
    {
      name: "n_total",
      description: "N",
      sum: { dataPoints: [{ attributes, ...start, asDouble: 3 }], aggregationTemporality: 2, isMonotonic: true },
    },
    {
      name: "t",
      description: "T",
      histogram: {
        dataPoints: [
          { attributes: [], ...start, count: "5", sum: 9, explicitBounds: [1, 2], bucketCounts: ["4", "0", "1"] },
        ],
        aggregationTemporality: 2,
      },
    },
    {
      name: "g",
      description: "G",
      gauge: { dataPoints: [{ attributes: [], timeUnixNano: "2000000000", asDouble: 0.5 }] },
    },
  ]);
});

import { expect, test } from "bun:test";
import { arrangementOf, hide, pin } from "./arrangement.ts";
import { systemPlots } from "./system_plots.ts";

test("a chart is pinned or hidden, not both, and comes back", () => {
  const none = { pinned: [], hidden: [] };
  const pinned = pin(pin(none, "Loss"), "Entropy");
  expect(pinned).toEqual({ pinned: ["Loss", "Entropy"], hidden: [] });
  expect(hide(pinned, "Loss")).toEqual({ pinned: ["Entropy"], hidden: ["Loss"] });
  expect(pin(hide(pinned, "Loss"), "Loss")).toEqual({ pinned: ["Entropy", "Loss"], hidden: [] });
  expect(pin(pinned, "Loss")).toEqual({ pinned: ["Entropy"], hidden: [] });
  for (const broken of [null, 7, "x", { pinned: 3, hidden: [1, "Loss"] }])
    expect(arrangementOf(broken).pinned).toEqual([]);
  expect(arrangementOf({ hidden: [1, "Loss"] }).hidden).toEqual(["Loss"]);
});

test("figures of the machine that were not measured have no curve", () => {
  const at = (second: number) => new Date(1_000_000 + second * 1_000).toISOString();
  const plots = systemPlots([
    { time: at(0), values: { memory_bytes: 5 } },
    { time: at(10), values: { memory_bytes: 6, cpu_percent: 50 } },
  ]);
  expect(plots.map(({ title, x, values }) => [title, x, values])).toEqual([
    ["Processors", [0, 10], [null, 50]],
    ["Memory of the machine", [0, 10], [5, 6]],
  ]);
  expect(systemPlots([])).toEqual([]);
});

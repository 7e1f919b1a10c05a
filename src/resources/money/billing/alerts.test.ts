import { expect, test } from "bun:test";
import { alertsOf } from "./ledger.ts";

const said = (before: number, after: number) =>
  alertsOf(100, before, after).map((alert) => (alert.type === "credit.low" ? alert.percent : alert.type));

test("each line is told of once on the way down, the end too, and nothing on the way up", () => {
  expect([said(100, 21), said(21, 20), said(20, 6), said(6, 5), said(5, 1), said(1, 0), said(0, -5)]).toEqual([
    [],
    [20],
    [],
    [5],
    [],
    ["credit.exhausted"],
    [],
  ]);
  expect(said(0, 100)).toEqual([]);
});

test("a fall past several lines tells of the last one alone", () => {
  expect([said(100, 5), said(100, 0)]).toEqual([[5], ["credit.exhausted"]]);
});

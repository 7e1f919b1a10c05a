import { expect, test } from "bun:test";
import { csvCell, spreadsheetCell } from "./csv.ts";

test("S9: a cell for spreadsheets is never a formula", () => {
  for (const text of [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\0=1",
    "＝1",
    "＠a",
  ])
    expect(spreadsheetCell(text)).toBe(`"'${text}"`);
  expect(spreadsheetCell('=HYPERLINK("http://a.test","x")')).toBe(`"'=HYPERLINK(""http://a.test"",""x"")"`);
  for (const text of ["", "a=1", "-5", "+3.25", "-1.5e-7", "2026-01-01", "'=1", "a,b"])
    expect(spreadsheetCell(text)).toBe(`"${text}"`);
});

test("a cell for programs is the text itself", () => {
  for (const text of ["=1", "", "-a", "a b"]) expect(csvCell(text)).toBe(text);
  expect([csvCell('a"b'), csvCell("a,b"), csvCell("a\nb")]).toEqual(['"a""b"', '"a,b"', '"a\nb"']);
});

import { expect, test } from "bun:test";
import { rejectionText } from "./report.ts";

const rejection = (column: number) => ({ kind: "syntax" as const, message: "no", line: 1, column });
const marked = (source: string, column: number, language: "python" | "typescript") =>
  rejectionText("x", source, rejection(column), language).split("\n").slice(1);

test("the mark is below the place, where characters are wide, and whatever a column counts", () => {
  const wide = 'x = "日本😀" +* 3';
  expect(marked(wide, 11, "python")).toEqual([`    ${wide}`, `    ${" ".repeat(13)}^`]); // code points
  expect(marked(wide, 12, "typescript")).toEqual([`    ${wide}`, `    ${" ".repeat(13)}^`]); // UTF-16
});

test("tabs stay tabs, and control characters are shown as one character", () => {
  expect(marked("\t\tx +* 3", 6, "python")).toEqual(["    \t\tx +* 3", "    \t\t   ^"]);
  expect(marked('"\u001b[31m" +* 3', 10, "python")).toEqual(['    "\ufffd[31m" +* 3', `    ${" ".repeat(9)}^`]);
});

import { expect, test } from "bun:test";
import { LabelFields } from "../../../resources/quality/annotation_queues/label_schema.ts";
import { labelsOf } from "./label_lines.ts";

test("lines become labels that the API takes", () => {
  const { fields, fault } = labelsOf("tone: kind, rude\n\nstars: 1-5\nnote: text\nerrors: mark wrong, too long\n");
  expect(fault).toBeUndefined();
  expect(LabelFields.parse(fields)).toMatchObject([
    { name: "tone", type: "choice", options: ["kind", "rude"], required: true },
    { name: "stars", type: "scale", min: 1, max: 5 },
    { name: "note", type: "text", required: false },
    { name: "errors", type: "span", options: ["wrong", "too long"] },
  ]);
});

test("a line without a colon is named", () => {
  expect(labelsOf("tone kind").fault).toBe("“tone kind” has no colon after the name of the label");
  expect(labelsOf("")).toEqual({ fields: [], fault: undefined });
});

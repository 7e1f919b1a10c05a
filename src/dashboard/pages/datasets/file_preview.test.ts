import { expect, test } from "bun:test";
import { csvRows } from "./csv.ts";
import { ambiguousShapes, filePreviewOf, fileRowsOf, firstMapOf, previewOf, proposedMap } from "./file_preview.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const preview = (text: string, name: string, isWhole = true) => {
  const file = fileRowsOf(bytes(text), name, isWhole);
  return file && filePreviewOf(file, firstMapOf(file));
};

test("the preview of rows to append names their wrong lines and drops a cut line", () => {
  const { rows, format, faults } = previewOf('{"prompt":"a"}\n\n[1]\n{"promt":"b"}\n{"prompt":', false);
  expect([rows.length, format]).toEqual([1, "prompt"]);
  expect(faults.map(({ line }) => line)).toEqual([3, 4]);
  expect(previewOf('{"prompt":"a"}', true).rows).toEqual([{ prompt: "a" }]);
});

test("an upload is shown as it will be stored: lines, arrays and CSV", () => {
  const alpaca = { instruction: "a", output: "b" };
  const stored = { shape: "alpaca", format: "completion", rows: [{ prompt: "a", completion: "b" }], faults: [] };
  expect(preview(`${JSON.stringify(alpaca)}\n`, "a.jsonl")).toEqual(stored as never);
  expect(preview(JSON.stringify([alpaca], null, 1), "a.json")).toEqual(stored as never);
  expect(preview("instruction,output\na,b\n", "a.csv")).toEqual(stored as never);
  expect(preview("[{", "a.json")?.faults).toHaveLength(1);
  for (const [name, text, isWhole] of [
    ["a.parquet", "PAR1", true],
    ["a.csv.gz", "instruction,output\n", true],
    ["a.json", "[{", false],
  ] as const)
    expect(preview(text, name, isWhole)).toBeUndefined();
});

test("columns with other names get a map, which a person may change", () => {
  const file = fileRowsOf(bytes('Question;Answer;id\n"Why;\n""x""?";b;1\n'), "faq.csv", true);
  if (!file) throw new Error("not read");
  expect(file.columns).toEqual(["Question", "Answer", "id"]);
  expect(firstMapOf(file)).toEqual({ Question: "prompt", Answer: "completion" });
  expect(filePreviewOf(file, firstMapOf(file)).rows).toEqual([{ prompt: 'Why;\n"x"?', completion: "b", id: "1" }]);
  expect(filePreviewOf(file, {}).faults).toHaveLength(1);
  expect(filePreviewOf(file, { Question: "prompt", Answer: "prompt" }).faults[0]?.message).toContain("two columns");
  expect(ambiguousShapes(file, {})).toEqual([]);
  const question =
    "Row 1: prompt is missing. Name the fields with `map`, for example question=prompt,answer=completion";
  expect([proposedMap(question), proposedMap("other")]).toEqual(["question=prompt,answer=completion", undefined]);
});

test("a fault far behind the first rows is found, and stands at its line", () => {
  const rows = Array.from({ length: 300 }, (_, i) => JSON.stringify(i === 250 ? { prompt: 4 } : { prompt: "a" }));
  expect(preview(rows.join("\n"), "a.jsonl")?.faults.map(({ line }) => line)).toEqual([251]);
  expect(preview("prompt\na\nb,c\n", "a.csv")?.faults.map(({ line }) => line)).toEqual([3]);
});

test("CSV: empty cells, line breaks of every kind, and a record that is cut", () => {
  expect(csvRows('a,b\r\n"x\ny",\r\n\n1,2', ",", true, 10)).toEqual([
    { line: 1, cells: ["a", "b"] },
    { line: 2, cells: ["x\ny", ""] },
    { line: 5, cells: ["1", "2"] },
  ]);
  expect(csvRows('a,b\n1,"cut', ",", false, 10)).toEqual([{ line: 1, cells: ["a", "b"] }]);
  expect(csvRows("a,b\n1,2", ",", false, 10)).toHaveLength(1);
});

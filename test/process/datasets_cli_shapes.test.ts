// tier: all (whole paths on the executable)
import { expect, test } from "bun:test";
import { datasetsCli } from "./datasets_cli_kit.ts";

const { verk, file } = datasetsCli();

test("recognizes the shape of a file and prints it; --map names other columns, and a question names the flag", async () => {
  const alpaca = await verk(["push", file("alpaca.csv", "instruction,input,output\nAdd,1 1,2\nSay hi,,hi\n")]);
  expect([alpaca.code, alpaca.err]).toEqual([0, expect.stringContaining("Alpaca in CSV, 2 rows → prompt/completion")]);
  const faq = file("faq.jsonl", '{"question":"a","answer":"b"}\n');
  expect((await verk(["push", faq])).err).toContain("with --map, for example question=prompt,answer=completion");
  const mapped = await verk(["push", faq, "--map", "question=prompt", "--map", "answer=completion"]);
  expect([mapped.code, mapped.err]).toEqual([0, expect.stringContaining("Prompt and completion, 1 row")]);
  const two = await verk(["push", file("two.jsonl", '{"prompt":"a","instruction":"b","output":"c"}\n')]);
  expect(two).toMatchObject({ code: 1, err: expect.stringContaining("Choose one with --shape: prompt or alpaca") });
  expect(await verk(["push", faq, "--map", "question"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--map"),
  });
});

test("append takes the kinds of files that push takes; JSON lines pass as they are", async () => {
  const made = (await verk(["create", "faq", "--format", "completion"])).out.trim();
  const csv = file("more.csv", "question,answer\na,b\nc,d\n");
  const unmapped = await verk(["append", made, csv]);
  expect(unmapped).toMatchObject({ code: 1, out: "" });
  expect(unmapped.err).toContain("more.csv: Row 1: prompt is missing");
  expect(unmapped.err).toContain("Name the fields with --map, for example question=prompt,answer=completion");
  const mapped = ["--map", "question=prompt", "--map", "answer=completion"];
  expect(await verk(["append", made, csv, ...mapped])).toMatchObject({ code: 0, out: "rows 1 to 2\n" });
  expect(await verk(["append", made, file("alpaca.json", '[{"instruction":"e","output":"f"}]')])).toMatchObject({
    code: 0,
    out: "row 3\n",
  });
  const lines = file("own.jsonl", '{"prompt":"g","completion":"h"}\n{"_op":"tombstone","_row_id":1}\n');
  expect(await verk(["append", made, lines])).toMatchObject({ code: 0, out: "rows 4 to 5\n" });
  const pulled = (await verk(["pull", made, "-o", "-"])).lines();
  expect(pulled).toEqual([
    { prompt: "c", completion: "d" },
    { prompt: "e", completion: "f" },
    { prompt: "g", completion: "h" },
  ]);
  const cases: [string[], number, string][] = [
    [[csv, "--map", "question"], 2, "--map"],
    [[csv, "--shape", "alpacca"], 2, "Did you mean alpaca?"],
    [["-", ...mapped], 2, "--map and --shape need a file"],
    [[file("talk.csv", "prompt\nhello\n")], 1, "completion is missing"],
  ];
  for (const [args, code, text] of cases)
    expect(await verk(["append", made, ...args])).toMatchObject({ code, out: "", err: expect.stringContaining(text) });
});

import { describe, expect, test } from "bun:test";
import { byBytes } from "./glob.ts";
import { layoutOf, ofOneFormat } from "./hub_splits.ts";

const front = (yaml: string) => `---\n${yaml}\n---\n# Words\n`;
const splits = (files: string[], readme = "", config?: string) => {
  const { configs, preferred } = layoutOf(files, readme);
  return Object.fromEntries(configs.get(config ?? preferred ?? "")?.() ?? []);
};

describe("a README without declarations", () => {
  test.each<[files: string[], expected: Record<string, string[]>]>([
    [["rows.jsonl", "more/rows.csv", "logo.png"], { train: ["rows.jsonl", "more/rows.csv"] }],
    [
      ["training_set.json", "dev.json", "test-1.json", "LICENSE"],
      { train: ["training_set.json"], validation: ["dev.json"], test: ["test-1.json"] },
    ],
    [
      ["train/a.parquet", "val/a.parquet", "train/test.parquet"],
      { train: ["train/a.parquet"], validation: ["val/a.parquet"], test: ["train/test.parquet"] },
    ],
    [
      ["data/odd.name-00000-of-00001-ab12.parquet", "data/train-00000-of-00001.parquet"],
      { "odd.name": ["data/odd.name-00000-of-00001-ab12.parquet"], train: ["data/train-00000-of-00001.parquet"] },
    ],
    [["contest.jsonl", "trainer.jsonl"], { train: ["contest.jsonl", "trainer.jsonl"] }], // words inside words
  ])("%j", (files, expected) => expect(splits(files)).toEqual(expected));

  test("a folder may be requested as a configuration", () => {
    expect(splits(["en/train.jsonl", "fr/train.jsonl"], "", "fr")).toEqual({ train: ["fr/train.jsonl"] });
  });

  test("files that the hub converted have their configurations in folders", () => {
    const files = [
      "b/train/0000.parquet",
      "b/train/0001.parquet",
      "b/partial-test/0000.parquet",
      "c/train/0000.parquet",
    ];
    expect(layoutOf(files, "").preferred).toBe(undefined);
    expect(splits(files, "", "b")).toEqual({ train: files.slice(0, 2), test: ["b/partial-test/0000.parquet"] });
  });
});

describe("as the README declares them", () => {
  const files = ["a/one.jsonl", "a/two.jsonl", "b/one.csv", "train.parquet"];
  test.each<[yaml: string, expected: Record<string, string[]>]>([
    ["configs:\n- config_name: default\n  data_files: a/*.jsonl", { train: ["a/one.jsonl", "a/two.jsonl"] }],
    [
      "configs:\n- config_name: x\n  data_files:\n    train: a/one.jsonl\n    extra: [a/two.jsonl, ./b/*]",
      { train: ["a/one.jsonl"], extra: ["a/two.jsonl", "b/one.csv"] },
    ],
    ["configs:\n- config_name: x\n  data_dir: ./a\n  data_files: two.jsonl", { train: ["a/two.jsonl"] }],
    ["configs:\n- config_name: x\n  data_dir: b", { train: ["b/one.csv"] }],
    [
      "configs:\n- config_name: x\n  data_files: a/*\n- config_name: y\n  default: true\n  data_files:\n  - split: 1\n    path: '**/one.*'",
      { "1": ["a/one.jsonl", "b/one.csv"] },
    ],
    ["configs: all of them", { train: ["train.parquet"] }], // invalid, so the file names decide
    ["license: [", { train: ["train.parquet"] }],
  ])("%s", (yaml, expected) => expect(splits(files, front(yaml))).toEqual(expected));

  test("several configurations without a default require a choice of the user", () => {
    const yaml = "configs:\n- config_name: x\n  data_files: a/*\n- config_name: y\n  data_files: b/*";
    expect(layoutOf(files, front(yaml)).preferred).toBe(undefined);
  });
});

test("copies in other formats are left out", () => {
  expect(ofOneFormat(["a.csv", "a.parquet", "b.parquet", "x.png"])).toEqual(["a.parquet", "b.parquet"]);
  expect(ofOneFormat(["a.csv", "a.jsonl"])).toEqual(["a.jsonl"]);
  expect(ofOneFormat(["x.png"])).toEqual([]);
});

test("keys are sorted as stores sort them, by bytes", () => {
  const keys = ["a", "a/b", "a b", "Z", "é", "\uffee", "😀", "\ud7ff"];
  const bytes = [...keys].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
  expect([...keys].sort(byBytes)).toEqual(bytes);
});

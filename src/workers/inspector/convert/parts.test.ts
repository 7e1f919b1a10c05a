import { expect, test } from "bun:test";
import { copyFileSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../test/harness.ts";
import { filesIn } from "../../../../test/hugging_face.ts";
import { makeModel } from "../../../../test/models.ts";
import { greedy } from "../../../../test/serving/reference.ts";
import { splitGguf } from "../../../../test/split_gguf.ts";
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { type Header, parseGguf } from "../../../lib/gguf/parse.ts";
import { convert } from "./convert.ts";

const whole = makeModel(tempDir(), { arch: "llama", type: "F16", layers: 3 });

async function parts(count = 3): Promise<string> {
  const dir = tempDir();
  await splitGguf(whole, { dir, stem: "m", count });
  return dir;
}
async function joined(dir: string) {
  const into = join(tempDir(), "model.gguf");
  return {
    into,
    ...(await convert({ files: filesIn(dir), name: "m", into, quantize: null, onProgress: () => {}, dataDir: "" })),
  };
}
const headerOf = (path: string) => {
  const bytes = readFileSync(path);
  return parseGguf(bytes, bytes.byteLength) as Header;
};

test("the joined file has the tensors and the metadata of the whole one", async () => {
  const { into, shape, bytes } = await joined(await parts(4));
  expect(bytes).toBe(Bun.file(into).size);
  expect(shape).toMatchObject({ architecture: "llama", layers: 3, has_chat_template: true });
  const [before, after] = [headerOf(whole), headerOf(into)];
  expect([...after.metadata.keys()]).toEqual([...before.metadata.keys()]);
  expect([...after.tensors.keys()]).toEqual([...before.tensors.keys()]);
  const tokens = Int32Array.of(40, 50, 60);
  expect(greedy(into, tokens, 1).logits).toEqual(greedy(whole, tokens, 1).logits);
});

const part = (number: number, count = 3) => `m-0000${number}-of-0000${count}.gguf`;
const ROWS: [what: string, sentence: string, change: (dir: string) => unknown][] = [
  ["a missing part", `${part(2)} is missing: copy it beside the other parts`, (dir) => rmSync(join(dir, part(2)))],
  ["the first part missing", `${part(1)} is missing`, (dir) => rmSync(join(dir, part(1)))],
  [
    "a part under another name",
    `${part(2)} contains part 3 of 3: it belongs to another model or was renamed`,
    (dir) => copyFileSync(join(dir, part(3)), join(dir, part(2))),
  ],
  [
    "a part of another model",
    "a part belongs to another model",
    async (dir) => {
      const other = tempDir();
      const larger = makeModel(tempDir(), { arch: "llama", type: "F16", layers: 5 });
      await splitGguf(larger, { dir: other, stem: "m", count: 3 });
      copyFileSync(join(other, part(3)), join(dir, part(3)));
    },
  ],
  [
    "a whole model under the name of a part",
    `${part(2)} is not a part of a split model`,
    (dir) => copyFileSync(whole, join(dir, part(2))),
  ],
  ["a truncated part", `${part(3)}: The file is truncated`, (dir) => truncateSync(join(dir, part(3)), 3000)],
  ["an empty part", `${part(3)}: `, (dir) => truncateSync(join(dir, part(3)), 0)],
];

test.each(ROWS)("%s is one sentence", async (_, sentence, change) => {
  const dir = await parts();
  await change(dir);
  const error = await joined(dir).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(CheckpointError);
  expect(error.message).toContain(sentence);
});

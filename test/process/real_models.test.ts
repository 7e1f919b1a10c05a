/** A real model from outside: import, completion, training, export, import again. Only in full runs. */
import { expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { tempDir } from "../harness.ts";
import { fetchStories, writeStoriesFolder } from "../stories15m.ts";
import { IS_FULL } from "../sweep.ts";

const data = IS_FULL ? await fetchStories() : undefined;
const STEPS = 4;

test.if(data !== undefined)(
  "stories15M tells the story that its author's program tells, also after training, export and import",
  async () => {
    const folder = join(tempDir(), "stories15M");
    writeStoriesFolder(folder, data!);
    const server = await startBinary();
    const verk = async (...args: string[]) => {
      const { code, out, err } = await server.verk(args, { cwd: server.dir });
      expect([args, code, code === 0 ? "" : err]).toEqual([args, 0, ""]);
      return out;
    };
    const story = async (model: string): Promise<string> => {
      await verk("deploy", model, "--name", model);
      const sampling = { temperature: 0, max_tokens: 40 };
      const { status, body } = await server.call("POST", "/v1/completions", {
        model,
        prompt: "Once upon a time",
        ...sampling,
      });
      expect([model, status]).toEqual([model, 200]);
      await verk("deployments", "stop", model);
      return body.choices[0].text;
    };
    try {
      const KNOWN = ", there was a little girl named Lily. She loved to play outside in the sunshine.";
      for (const quantize of ["", "Q8_0", "Q4_K_M"]) {
        const name = `stories${quantize}`;
        await verk("models", "import", folder, "--name", name, ...(quantize === "" ? [] : ["--quantize", quantize]));
        expect(await story(name)).toStartWith(KNOWN);
      }
      const rows = Array.from({ length: 8 }, (_, i) => ({ prompt: `${i} and ${i} are`, completion: ` ${2 * i}` }));
      await Bun.write(join(server.dir, "rows.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
      const job = ["--model", "stories", "--method", "sft", "--dataset", "rows.jsonl", "--output", "learned"];
      await verk("jobs", "create", ...job, "--set", `max_steps=${STEPS}`, "--set", "learning_rate=1e-3", "--watch");
      await verk("jobs", "model", "learned", "--variant", "merged", "-o", "merged.gguf");
      await verk("models", "import", "merged.gguf", "--name", "merged");
      await verk("jobs", "model", "learned", "--variant", "huggingface", "-o", "hf.tar");
      mkdirSync(join(server.dir, "hf"));
      await Bun.spawn(["tar", "-xf", "hf.tar", "-C", "hf"], { cwd: server.dir }).exited;
      await verk("models", "import", "hf", "--name", "hf");
      const learned = await story("learned");
      expect([await story("merged"), await story("hf")]).toEqual([learned, learned]);
    } finally {
      await server.kill("SIGTERM");
    }
  },
  300_000,
);

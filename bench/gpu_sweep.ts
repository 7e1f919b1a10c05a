/**
 * The reference sweep: tokens a second over HTTP and the time to the first token at 1, 32, 128 and 256 streams, for the
 * shapes of 0.5B, 1B and 8B in BF16 and Q4_K, beside the library's bare decode loop (what llama-batched-bench measures)
 * in the same run, and the share of the memory's limit. `bench/peers/sweep_torch.py` has transformers for the same shapes.
 * `bun bench/gpu_sweep.ts [--shapes 0.5B,1B,8B] [--types BF16,Q4_K] [--streams 1,32,128,256] [--rounds 3] [--no-library] [--cpu]`
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { libraryRate } from "./decode/library.ts";
import { roof, SHAPES, WEIGHT_BYTES } from "./decode/shapes.ts";
import { bestRound, CONTEXT, PROMPT, served, TOKENS } from "./gpu_serving.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { remove, tempDir } from "./tools.ts";

const BYTES_PER_SECOND = 4.3e12; // copies on an H200, measured

type Type = keyof typeof WEIGHT_BYTES;
type Sweep = {
  shapes: string[];
  types: Type[];
  streams: number[];
  rounds: number;
  library: boolean;
  gpus: readonly number[];
};

async function sweep({ shapes, types, streams, rounds, library, gpus }: Sweep) {
  console.log(
    "| model | streams | tokens/s over HTTP | first token | the library's loop | ratio | of the memory's limit |",
  );
  console.log("|---|---|---|---|---|---|---|");
  for (const name of shapes)
    for (const wanted of types) {
      const shape = SHAPES[name];
      if (!shape) throw new Error(`There is no shape ${name}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
      const type = wanted === "Q4_K" && shape.width % 256 !== 0 ? "Q8_0" : wanted; // Q4_K has blocks of 256
      const dataDir = tempDir();
      const modelPath = join(dataDir, "model.gguf");
      await writeRolloutModel(modelPath, shape, type);
      const parallel = Math.max(...streams);
      const of = { dataDir, modelPath, decoder: "auto" as const, gpus, parallel, contextLength: CONTEXT };
      const found: { count: number; whole: number; first: number }[] = [];
      await served(of, async (socket) => {
        for (const count of streams) {
          const best = await bestRound(socket, count, rounds);
          found.push({ count, ...best });
          console.error(`${name} ${type}, ${count} streams: ${Math.round(best.whole)} tok/s`); // the table comes at the end
        }
      });
      for (const { count, whole, first } of found) {
        const peer = library ? libraryRate({ dataDir, modelPath, streams: count, prompt: PROMPT, tokens: TOKENS }) : 0;
        const limit = roof(shape, count, PROMPT + TOKENS / 2, BYTES_PER_SECOND, WEIGHT_BYTES[type]);
        const beside = peer > 0 ? [String(Math.round(peer)), `${(whole / peer).toFixed(2)}×`] : ["", ""];
        const cells = [`${name} ${type}`, count, Math.round(whole), `${first.toFixed(1)} ms`, ...beside];
        console.log(`| ${cells.join(" | ")} | ${((100 * whole) / limit).toFixed(0)} % |`);
      }
      remove(dataDir);
    }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      shapes: { type: "string", default: "0.5B,1B,8B" },
      types: { type: "string", default: "BF16,Q4_K" },
      streams: { type: "string", default: "1,32,128,256" },
      rounds: { type: "string", default: "3" }, // the first does not count
      "no-library": { type: "boolean", default: false },
      cpu: { type: "boolean", default: false },
    },
  });
  await sweep({
    shapes: values.shapes.split(","),
    types: values.types.split(",") as Type[],
    streams: values.streams.split(",").map(Number),
    rounds: Number(values.rounds),
    library: !values["no-library"],
    gpus: values.cpu ? [] : [0],
  });
}

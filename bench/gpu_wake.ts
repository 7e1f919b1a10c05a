/**
 * The parts of a wake on a GPU, in a new process each time: what a standby process can have done ahead, what the weights
 * cost, and how long an engine takes from `load` to its first token. `bun bench/gpu_wake.ts [--shape 0.5B] [--cpu]`
 */
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openCudaDevice } from "../src/native/cuda/decode/cuda_device.ts";
import { DECODE_FILE, PAGE } from "../src/native/cuda/decode/kernels.ts";
import { cudaDriver } from "../src/native/cuda/driver.ts";
import { llamaLibraries } from "../src/native/llama/libraries.ts";
import { loadModel as loadLibraryModel } from "../src/native/llama/load.ts";
import { openLlama } from "../src/native/llama/symbols.ts";
import { openReader } from "../src/native/shim/read.ts";
import { openDecoder } from "../src/workers/decoder/decoder.ts";
import { PLAIN } from "../src/workers/decoder/drawing.ts";
import { headerOf } from "../src/workers/decoder/header.ts";
import { loadModel } from "../src/workers/decoder/model.ts";
import { openEngine, prepareEngine } from "../src/workers/serving/engine/engine.ts";
import { decodeOne, warm } from "../src/workers/serving/health.ts";
import { SHAPES } from "./decode/shapes.ts";
import { writeRolloutModel } from "./peers/rollout_model.ts";
import { remove, tempDir } from "./tools.ts";

const CONTEXT = 4096;
const PARALLEL = 16;
const MODES = ["parts", "engine", "card"] as const; // card: the standby process holds a context

type Step = { what: string; ms: number; usedMib: number };

const usedMib = () =>
  Number(Bun.spawnSync(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]).stdout.toString()) ||
  0;

/** Times steps one after the other; the card's memory is read between them, outside of the time. */
function newSteps(gpu: boolean) {
  const steps: Step[] = [];
  const note = (what: string, begun: number) => {
    const ms = performance.now() - begun;
    steps.push({ what, ms, usedMib: gpu ? usedMib() : 0 });
  };
  return {
    steps,
    note,
    of<T>(what: string, act: () => T): T {
      const begun = performance.now();
      const made = act();
      note(what, begun);
      return made;
    },
  };
}

/** Everything that a wake does, on one thread. */
function parts(dir: string, path: string) {
  const { of, steps } = newSteps(true);
  const llama = of("load libllama and libggml-cuda", () => openLlama(dir, { cuda: true }));
  of("context on the card", () => cudaDriver(0));
  const image = readFileSync(join(llamaLibraries(dir).dir, DECODE_FILE));
  const device = of("load the kernels", () => openCudaDevice(image));
  const header = of("read the header", () => headerOf(path));
  of("load the vocabulary", () => loadLibraryModel(llama, { path, devices: [], repack: false, vocabOnly: true }));
  of("pinned buffers", () => device.fill(device.allocate(1 << 24), 1 << 24, () => {}));
  const model = of("copy the weights", () => {
    const made = loadModel(device, { path, header }, CONTEXT);
    device.wait();
    return made;
  });
  const read = openReader(dir);
  const again = of("copy the weights by several threads", () => {
    const made = loadModel(device, { path, header, read }, CONTEXT);
    device.wait();
    return made;
  });
  again.free();
  const decoder = of("memory of the decoder", () => {
    const pages = PARALLEL * Math.ceil(CONTEXT / PAGE);
    const made = openDecoder(device, model, {
      slots: PARALLEL,
      contextLength: CONTEXT,
      pages,
      promptTokens: 2048,
      ahead: true,
    });
    device.wait();
    return made;
  });
  const token = (prompt: Int32Array) => {
    decoder.admit({ prompt, maxTokens: 1, drawing: PLAIN });
    while (decoder.step().length === 0);
  };
  of("first token", () => token(Int32Array.of(300, 301, 302)));
  of("second token", () => token(Int32Array.of(400, 301, 302)));
  return steps;
}

/** From the message `load` on, in a process that was prepared as a standby process is. */
async function engine(dir: string, path: string, { gpu, card }: { gpu: boolean; card: boolean }) {
  const { note, steps } = newSteps(gpu);
  let begun = performance.now();
  const prepared = prepareEngine({ dataDir: dir, cuda: gpu, modelPath: gpu ? path : null, card });
  await Bun.sleep(4000);
  note("prepared (4 s of them asleep)", begun);
  begun = performance.now();
  const options = { dataDir: dir, modelPath: path, contextLength: CONTEXT, parallel: PARALLEL, threads: 4 };
  const opened = await openEngine({ ...options, gpus: gpu ? [0] : [], decoder: "auto", hurry: true }, prepared);
  const openedAt = performance.now();
  await warm(opened);
  const warmAt = performance.now();
  await decodeOne(opened);
  const doneAt = performance.now();
  steps.push({ what: "open the engine", ms: openedAt - begun, usedMib: 0 });
  steps.push({ what: "warm it", ms: warmAt - openedAt, usedMib: 0 });
  steps.push({ what: "a token", ms: doneAt - warmAt, usedMib: 0 });
  steps.push({ what: "from load to a first token", ms: doneAt - begun, usedMib: gpu ? usedMib() : 0 });
  await opened.close();
  return steps;
}

function inChild(args: readonly string[]): Step[] {
  const spawned = Date.now();
  const child = spawnSync(process.execPath, [Bun.main, ...args], { encoding: "utf8", maxBuffer: 1 << 24 });
  const line = child.stdout.split("\n").find((each) => each.startsWith("{"));
  if (line === undefined) throw new Error(child.stderr.slice(-3000));
  const { startedAt, steps } = JSON.parse(line) as { startedAt: number; steps: Step[] };
  return [{ what: "start of a process", ms: startedAt - spawned, usedMib: 0 }, ...steps];
}

if (import.meta.main) {
  const startedAt = Date.now();
  const { values } = parseArgs({
    options: {
      shape: { type: "string", default: "0.5B" },
      cpu: { type: "boolean", default: false },
      mode: { type: "string" },
      dir: { type: "string" },
      model: { type: "string" },
    },
  });
  const gpu = !values.cpu;
  if (values.mode && values.dir && values.model) {
    const steps =
      values.mode === "parts"
        ? parts(values.dir, values.model)
        : await engine(values.dir, values.model, { gpu, card: values.mode === "card" });
    console.log(JSON.stringify({ startedAt, steps }));
    process.exit(0);
  }
  const shape = SHAPES[values.shape];
  if (!shape) throw new Error(`There is no shape ${values.shape}. Shapes: ${Object.keys(SHAPES).join(", ")}`);
  const dir = tempDir();
  const model = join(dir, "model.gguf");
  await writeRolloutModel(model, shape, "BF16");
  console.log(`${values.shape} BF16, ${(statSync(model).size / 1e9).toFixed(2)} GB, from the page cache`);
  for (const mode of MODES.filter((each) => gpu || each === "engine")) {
    const args = ["--mode", mode, "--dir", dir, "--model", model, ...(gpu ? [] : ["--cpu"])];
    inChild(args); // pages and files are in memory afterwards
    for (const { what, ms, usedMib: used } of inChild(args))
      console.log(
        `${ms.toFixed(1).padStart(9)} ms  ${used > 0 ? `${used} MiB of the card in use` : ""}  ${mode}: ${what}`,
      );
  }
  remove(dir);
}

/** Makes export files from one checkpoint. */
import { copyFile, mkdtemp, open, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type TarEntry, tarChunks } from "../../lib/archive/tar_write.ts";
import { string } from "../../lib/gguf/facts.ts";
import type { Header } from "../../lib/gguf/parse.ts";
import type { LoraSettings } from "../../lib/training/lora.ts";
import { MIB } from "../../lib/units.ts";
import { QUANTIZATIONS, type Quantization } from "../../native/llama/quantize.ts";
import { renameDurably, sha256File, tempPath, UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { WorkerError } from "../protocol.ts";
import type { ExportTask, FromTrainer } from "../protocol_trainer.ts";
import { ADAPTER_FILE, mustFit, readState } from "./checkpoint.ts";
import { architectureOf } from "./engine/architecture.ts";
import { loraNames } from "./engine/weights.ts";
import { openMerger } from "./learned.ts";
import { readModelFile } from "./model_file.ts";
import type { Adapter, AdapterLayer } from "./results/adapter.ts";
import { openHfFolder } from "./results/hf_folder.ts";
import type { HfType } from "./results/hf_weights.ts";
import { type Learned, type MergedType, writeMergedGguf } from "./results/merged_gguf.ts";
import { writePeft } from "./results/peft.ts";
import { writeQuantizedGguf } from "./results/quantized_gguf.ts";
import { openTensors, WEIGHTS_FILE } from "./trainee/files.ts";

type Report = { send: (message: FromTrainer) => void; onTurn: () => void };

const PLAIN: readonly string[] = ["F32", "F16", "BF16", "Q8_0"] satisfies MergedType[];
const isPlain = (name: string): name is MergedType => PLAIN.includes(name);
const isMixed = (name: string): name is Quantization => Object.hasOwn(QUANTIZATIONS, name);

export async function exportFiles(task: ExportTask, report: Report): Promise<void> {
  const state = await readState(task.checkpoint);
  mustFit(state, task.lora, task.checkpoint);
  if (task.variant === "adapter") await copyAdapter(task);
  else if (task.variant === "peft") await writePeftTar(task);
  else if (task.variant === "huggingface") await writeFolder(task, report);
  else await writeModel(task, report);
  const { size } = await stat(task.out);
  report.send({ type: "exported", path: task.out, size_bytes: size, sha256: await sha256File(task.out) });
}

const mustLora = (lora: LoraSettings | null, variant: string): LoraSettings => {
  if (lora) return lora;
  throw new WorkerError(
    "config",
    `All weights were trained, so there is no adapter for the variant ${variant}. Use merged or gguf`,
  );
};

async function copyAdapter({ lora, checkpoint, out, variant }: ExportTask) {
  mustLora(lora, variant);
  const temp = tempPath(dirname(out));
  try {
    await copyFile(join(checkpoint, ADAPTER_FILE), temp);
    const file = await open(temp, "r");
    await file.sync().finally(() => file.close());
    await renameDurably(temp, out);
  } catch (error) {
    await rm(temp, { force: true });
    throw error;
  }
}

async function writePeftTar(task: ExportTask) {
  const lora = mustLora(task.lora, task.variant);
  const dir = await mkdtemp(join(dirname(task.out), ".verk-peft-"));
  try {
    const { header } = await readModelFile(task.model_path);
    const { heads, keyHeads, name } = architectureOf(header);
    const options = { heads, keyHeads, baseModel: repositoryOf(header) ?? task.base_model, dropout: lora.dropout };
    await writePeft(dir, readAdapter(task.checkpoint, lora, name), options);
    const entries = await Promise.all((await readdir(dir)).sort().map((name) => entryOf(dir, name)));
    await writeStreamAtomic(task.out, tarChunks(entries), { meter: UNCOUNTED });
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

const REPOSITORY_KEYS = ["general.base_model.0.repo_url", "general.source.repo_url", "general.repo_url"];

/** The repository that the file was made from: transformers cannot load the GGUF file itself as a base model. */
function repositoryOf(header: Header): string | undefined {
  for (const key of REPOSITORY_KEYS) {
    const match = /^https:\/\/huggingface\.co\/([\w.-]+\/[\w.-]+?)(\.git)?\/?$/.exec(string(header, key) ?? "");
    if (match?.[1] && !/gguf$/i.test(match[1])) return match[1];
  }
  return undefined;
}

async function entryOf(dir: string, name: string): Promise<TarEntry> {
  const file = Bun.file(join(dir, name));
  const { size } = await stat(join(dir, name));
  return { name, size, content: () => file.stream() as AsyncIterable<Uint8Array> };
}

const HF_TYPES: readonly string[] = ["BF16", "F16", "F32"] satisfies HfType[];
const isHfType = (name: string): name is HfType => HF_TYPES.includes(name);

/** Streams the folder into one archive: neither the model nor a second copy of it is ever on disk. */
async function writeFolder(task: ExportTask, { send, onTurn }: Report) {
  const type = task.quantization === "" ? "BF16" : task.quantization;
  if (!isHfType(type)) throw new WorkerError("config", `quantization: ${type} must be one of ${HF_TYPES.join(", ")}`);
  const backend = openMerger(task);
  const learned = await readLearned(task);
  try {
    const folder = await openHfFolder(backend, { base: task.model_path, learned: learned.learned, type });
    const total = folder.entries.reduce((sum, { size }) => sum + size, 0);
    let done = 0;
    const onBytes = (bytes: number) => {
      onTurn();
      done += bytes;
      send({ type: "loading", stage: "writing", progress: Math.min(done / total, 1) });
    };
    await writeStreamAtomic(task.out, counted(tarChunks(folder.entries), onBytes), { meter: UNCOUNTED }).finally(
      folder.close,
    );
  } finally {
    learned.close();
    backend.close();
  }
}

const REPORT_BYTES = 64 * MIB;

async function* counted(chunks: AsyncIterable<Uint8Array>, onBytes: (bytes: number) => void) {
  let since = 0;
  for await (const chunk of chunks) {
    yield chunk;
    since += chunk.byteLength;
    if (since < REPORT_BYTES) continue;
    onBytes(since);
    since = 0;
  }
}

/** `merged` uses a plain type (default F16); `gguf` also supports libllama's mixed types. */
async function writeModel(task: ExportTask, { send, onTurn }: Report) {
  const wanted = task.quantization === "" ? "F16" : task.quantization;
  if (!isPlain(wanted) && !isMixed(wanted)) {
    const names = [...new Set([...PLAIN, ...Object.keys(QUANTIZATIONS)])].join(", ");
    throw new WorkerError("config", `quantization: ${wanted} is unknown. Use one of ${names}`);
  }
  const backend = openMerger(task);
  const learned = await readLearned(task);
  const onProgress = (progress: number) => {
    onTurn();
    send({ type: "loading", stage: "writing", progress: Math.min(progress, 1) });
  };
  const common = { base: task.model_path, path: task.out, learned: learned.learned, onProgress };
  try {
    if (isPlain(wanted)) await writeMergedGguf(backend, { ...common, type: wanted });
    else {
      const { threads, data_dir: dataDir } = task;
      await writeQuantizedGguf(backend, {
        ...common,
        through: "F16",
        quantization: wanted,
        threads,
        dataDir,
        cuda: task.gpus.length > 0,
      });
    }
  } finally {
    learned.close();
    backend.close();
  }
}

async function readLearned({
  checkpoint,
  lora,
  model_path,
}: ExportTask): Promise<{ learned: Learned; close: () => void }> {
  if (lora) {
    const { name } = architectureOf((await readModelFile(model_path)).header);
    return { learned: { adapter: readAdapter(checkpoint, lora, name) }, close() {} };
  }
  const file = openTensors(join(checkpoint, WEIGHTS_FILE));
  return { learned: { weights: file.readRows }, close: file.close };
}

function readAdapter(checkpoint: string, lora: LoraSettings, architecture: string): Adapter {
  const file = openTensors(join(checkpoint, WEIGHTS_FILE));
  try {
    const layers = [...file.tensors].flatMap(
      ([
        tensor,
        {
          shape: [, inputs = 1],
        },
      ]): AdapterLayer[] => {
        if (!tensor.endsWith(".lora_a")) return [];
        const name = tensor.slice(0, -".lora_a".length);
        const { a, b } = loraNames(name);
        return [{ name, inputs, outputs: file.tensors.get(b)?.shape[0] ?? 1, a: file.read(a), b: file.read(b) }];
      },
    );
    return { architecture, rank: lora.r, alpha: lora.alpha, rslora: lora.use_rslora, layers };
  } finally {
    file.close();
  }
}

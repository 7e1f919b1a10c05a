/** Facts about models in words. Pure. */
import { count, percent } from "../../data/format.ts";
import type { Model, ModelCapabilities } from "./types.ts";

const UNITS = ["", "K", "M", "B", "T"];

/** 494032768 → "494M" */
export function parameters(n: number | null): string {
  if (n === null) return "–";
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(1, n)) / 3));
  return `${Number((n / 1000 ** power).toPrecision(3))}${UNITS[power]}`;
}

export const tokens = (n: number | null): string => (n === null ? "–" : `${count(n)} tokens`);

const SOURCES: Readonly<Record<Model["source"], string>> = {
  builtin: "Built in",
  folder: "In the models folder",
  hub: "Pulled from the hub",
  upload: "Imported",
  training_job: "Made by a run",
  quantized: "Quantized copy",
};
export const sourceText = ({ source }: Pick<Model, "source">): string => SOURCES[source];

const DOING: Partial<Record<Model["source"], string>> = {
  hub: "Downloading",
  quantized: "Quantizing",
  training_job: "Merging",
};

/** "Quantizing 40 %" */
export function doingText({ source, progress, status, size_bytes: size }: Model): string {
  const isWaiting = source === "upload" && status === "pending" && size === null;
  const verb = isWaiting ? "Waiting for its file" : (DOING[source] ?? "Checking");
  return progress === null ? verb : `${verb} ${percent(progress)}`;
}

const DECODERS = { own: "Verk's kernels", library: "llama.cpp" } as const;
const WORKS = {
  chat: "Chat",
  completion: "Completion of text, without a chat template",
  embedding: "Embeddings",
} as const;

/** Names and sentences for the card "What it can do". */
export function abilities({ serving, training, quantizations }: ModelCapabilities): [name: string, text: string][] {
  const why = (reason: string | null) => (reason === null ? "" : `: ${reason}`);
  const { works_as: works, decoder, on_gpus: gpus } = serving;
  const served =
    works === null ? `No${why(serving.reason)}` : WORKS[works] + (serving.reads_images ? ", reads images" : "");
  const lines: [string, string][] = [["Serves", served]];
  if (decoder !== null) lines.push(["Decoder here", `${DECODERS[decoder]}${why(serving.reason)}`]);
  if (gpus && (decoder !== gpus.decoder || serving.reason !== gpus.reason))
    lines.push(["Decoder on a GPU", `${DECODERS[gpus.decoder]}${why(gpus.reason)}`]);
  const { methods, exact_sampling: exact } = training;
  lines.push([
    "Trains by",
    methods.length > 0 ? methods.map((each) => each.toUpperCase()).join(", ") : `No${why(training.reason)}`,
  ]);
  if (exact) lines.push(["Exact sampling", exact.possible ? "Yes, with a LoRA on a GPU" : `No${why(exact.reason)}`]);
  lines.push([
    "Quantizes to",
    quantizations.length > 0 ? quantizations.join(", ") : "Nothing: adapters and quantized weights stay as they are",
  ]);
  return lines;
}

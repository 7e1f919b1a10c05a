/** Chooses the files of a repository that a name means: a GGUF file, a split one, or a folder of safetensors. Pure. */
import { posix } from "node:path";
import { QUANTIZATIONS, type Quantization } from "../../../../lib/checkpoints/mix.ts";
import { isSafetensors } from "../../../../lib/gguf/other_formats.ts";
import { partNames, type Split, splitOf } from "../../../../lib/gguf/parts.ts";
import { isCheckpoint, isPart } from "../files/checkpoint.ts";
import { HubError, type HubFile } from "./hub.ts";
import { fileMatches } from "./name.ts";

export type Choice = {
  kind: "file" | "parts" | "folder";
  /** The file that stands for all: the only one, the first part, or the safetensors file or its index. */
  main: string;
  /** In the order of their download. */
  files: readonly HubFile[];
  size: number;
  /** For a folder: its weights become this type. */
  quantize?: Quantization | undefined;
};

const PREFERRED = ["Q4_K_M", "Q8_0", "F16", "BF16", "F32"];
const SAFE_PATH = /^(?!.*\.\.)[A-Za-z0-9_][\w.+ -]*(\/[A-Za-z0-9_][\w.+ -]*){0,5}$/;
const LONGEST_PATH = 240; // leaves room for the suffix of a second version
const MAX_FILES = 1100;

/** A GGUF file if the repository has one, else its safetensors. */
export function chooseFiles(repo: string, files: readonly HubFile[], choice: string | undefined): Choice {
  const ggufs = files.filter(
    ({ path }) => path.length <= LONGEST_PATH && /\.gguf$/i.test(path) && SAFE_PATH.test(path),
  );
  if (ggufs.length === 0) return chooseFolder(repo, files, choice);
  const models = candidatesOf(ggufs.filter(({ path }) => !/(^|\/)mmproj[^/]*$/i.test(path)));
  const fitting = models.filter(
    (each) => fileMatches(each.path, choice) || each.files.some(({ path }) => path === choice),
  );
  if (fitting.length === 0) {
    const paths = models
      .map(({ path }) => path)
      .slice(0, 12)
      .join(", ");
    throw new HubError(`${repo} has no file for ${choice ?? "a model"}: it has ${paths || "no model"}`, false);
  }
  return complete(repo, bestOf(fitting, choice));
}

/** `path` of a split model is that of the joined file. */
type Candidate = { path: string; files: HubFile[]; size: number; split: Split | undefined };

function candidatesOf(ggufs: readonly HubFile[]): Candidate[] {
  const candidates = new Map<string, Candidate>();
  for (const file of ggufs) {
    const split = splitOf(posix.basename(file.path));
    const path = split ? posix.join(posix.dirname(file.path), `${split.stem}.gguf`) : file.path;
    const key = split ? `${path}/${split.count}` : path;
    const candidate = candidates.get(key) ?? { path, files: [], size: 0, split };
    candidate.files.push(file);
    candidate.size += file.size;
    candidates.set(key, candidate);
  }
  return [...candidates.values()];
}

function bestOf(fitting: readonly Candidate[], choice: string | undefined): Candidate {
  for (const quant of choice === undefined ? PREFERRED : []) {
    const best = fitting.find(({ path }) => fileMatches(path, quant));
    if (best) return best;
  }
  return fitting.reduce((least, each) => (each.size < least.size ? each : least));
}

function complete(repo: string, { files, size, split }: Candidate): Choice {
  const [first] = files;
  if (!first) throw new HubError(`${repo} has no GGUF file`, false);
  if (!split) return { kind: "file", main: first.path, files, size };
  const dir = posix.dirname(first.path);
  const names = split.count > MAX_FILES ? [] : partNames(split).map((name) => posix.join(dir, name));
  const ordered = names.map((path) => find(repo, files, path));
  if (ordered.length === 0) throw new HubError(`${repo} has a model of ${split.count} parts, which is too many`, false);
  return { kind: "parts", main: names[0] ?? first.path, files: ordered, size };
}

function find(repo: string, files: readonly HubFile[], path: string): HubFile {
  const match = files.find((file) => file.path === path);
  if (!match) throw new HubError(`${repo} is incomplete: it has no ${path}`, false);
  return match;
}

const INDEX = "model.safetensors.index.json";

function chooseFolder(repo: string, files: readonly HubFile[], choice: string | undefined): Choice {
  const parts = files.filter(({ path }) => isPart(path));
  const names = parts.map(({ path }) => path);
  if (!isCheckpoint(names)) throw nothingIn(repo, files);
  if (!names.includes("tokenizer.json") && !names.includes("tokenizer.model"))
    throw new HubError(
      `${repo} has no tokenizer.json and no tokenizer.model, so it cannot be converted to GGUF`,
      false,
    );
  const quantize = QUANTIZATIONS.find((each) => each === choice?.toUpperCase());
  if (choice !== undefined && quantize === undefined)
    throw new HubError(
      `${repo} has no GGUF file for ${choice}, only safetensors: use ${repo}, or one of ${QUANTIZATIONS.join(", ")} after the colon`,
      false,
    );
  const weights = weightsOf(repo, names);
  const wanted = parts.filter(({ path }) => !isSafetensors(path) || weights.includes(path));
  if (wanted.length > MAX_FILES) throw new HubError(`${repo} has ${wanted.length} files, which is too many`, false);
  const order = ({ path }: HubFile) => `${Number(isSafetensors(path))}${path}`; // small files first
  const ordered = [...wanted].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  const size = wanted.reduce((sum, file) => sum + file.size, 0);
  const main = weights.length > 1 && names.includes(INDEX) ? INDEX : (weights[0] ?? INDEX);
  return { kind: "folder", main, files: ordered, size, quantize };
}

const SHARD = /^(.+)-(\d{5})-of-(\d{5})\.safetensors$/;

/**
 * The names decide, because only the conversion parses the index. A repository may have the same weights twice, for
 * example as consolidated.safetensors.
 */
function weightsOf(repo: string, names: readonly string[]): string[] {
  const all = names.filter(isSafetensors);
  const usual = all.filter((name) => SHARD.test(name) && name.startsWith("model-"));
  const shards = usual.length > 0 ? usual : all.filter((name) => SHARD.test(name));
  const [, stem = "", , count = ""] = SHARD.exec(shards[0] ?? "") ?? [];
  if (!names.includes(INDEX) || stem === "" || Number(count) > MAX_FILES)
    return all.includes("model.safetensors") ? ["model.safetensors"] : all;
  for (let i = 1; i <= Number(count); i++) {
    const name = `${stem}-${String(i).padStart(5, "0")}-of-${count}.safetensors`;
    if (!shards.includes(name)) throw new HubError(`${repo} is incomplete: it has no ${name}`, false);
  }
  return shards;
}

function nothingIn(repo: string, files: readonly HubFile[]): HubError {
  if (files.some(({ path }) => path === "adapter_config.json"))
    return new HubError(`${repo} is a PEFT adapter: merge it into its base model, or use a GGUF version of it`, false);
  const kindOf = (path: string) => (/\.[^./]+$/.exec(path.slice(-LONGEST_PATH))?.[0] ?? path).slice(0, 24);
  const kinds = [...new Set(files.map(({ path }) => kindOf(path)))].slice(0, 8).join(", ");
  return new HubError(
    `${repo} has no GGUF file, and no config.json with safetensors (it has ${kinds || "nothing"}): look for a GGUF version of it`,
    false,
  );
}

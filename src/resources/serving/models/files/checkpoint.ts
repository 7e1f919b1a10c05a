/** Finds models of other formats on this machine: a Hugging Face folder, or the parts of a split GGUF file. */
import { readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { AppError } from "../../../../lib/errors.ts";
import { isSafetensors } from "../../../../lib/gguf/other_formats.ts";
import { partNames, type Split, splitOf, splitsIn } from "../../../../lib/gguf/parts.ts";

export type Checkpoint = {
  kind: "folder" | "parts";
  /** Name of the folder, or of the split file without its number. */
  name: string;
  dir: string;
  /** Name in the folder → path without links, which a confined process may be granted. */
  files: Record<string, string>;
  bytes: number;
  /** Time of the newest file. */
  mtimeMs: number;
};

const SMALL = [
  "config.json",
  "tokenizer.json",
  "tokenizer.model",
  "tokenizer_config.json",
  "added_tokens.json",
  "special_tokens_map.json",
  "generation_config.json",
  "chat_template.jinja",
  "model.safetensors.index.json",
  "modules.json",
  "1_Pooling/config.json",
];
const POOLING = "1_Pooling";
const NAME = /^[\w.-]{1,200}$/;

/** True for files that a conversion reads. */
export const isPart = (name: string): boolean => SMALL.includes(name) || (NAME.test(name) && isSafetensors(name));

export const isCheckpoint = (names: readonly string[]): boolean =>
  names.includes("config.json") && names.some(isSafetensors) && !names.some((name) => /\.gguf$/i.test(name));

/**
 * The folder at `path`, or around the safetensors file at `path`, or the parts of the split GGUF file at `path`.
 * Undefined: it is something else.
 */
export async function checkpointAt(path: string): Promise<Checkpoint | undefined> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return undefined;
  const split = stats.isDirectory() ? onlySplitIn(await readdir(path)) : splitOf(basename(path));
  if (split) return partsAt(stats.isDirectory() ? path : dirname(path), split);
  const dir = stats.isDirectory() ? path : isSafetensors(path) ? dirname(path) : undefined;
  if (dir === undefined) return undefined;
  const names = await readdir(dir);
  if (names.includes("adapter_config.json") && !names.includes("config.json"))
    throw new AppError(
      "invalid_request",
      `${dir} is a PEFT adapter, which cannot be imported: merge it into its base model first`,
    );
  if (!isCheckpoint(names)) {
    if (stats.isDirectory()) return undefined;
    throw new AppError("invalid_request", `${path} needs the config.json and the tokenizer of its model in ${dir}`);
  }
  const nested = names.includes(POOLING) ? [`${POOLING}/config.json`] : [];
  return checkpointOf({ kind: "folder", name: basename(dir), dir }, [...names.filter(isPart), ...nested]);
}

/** The parts that are there. A missing one is reported by its name when they are joined. */
export const partsAt = (dir: string, split: Split): Promise<Checkpoint> =>
  checkpointOf({ kind: "parts", name: split.stem, dir }, partNames(split));

/** The split model of a folder without another GGUF file. */
function onlySplitIn(names: readonly string[]): Split | undefined {
  const [split, another] = splitsIn(names);
  const single = names.some((name) => /\.gguf$/i.test(name) && !splitOf(name));
  return another || single ? undefined : split;
}

async function checkpointOf(
  what: Pick<Checkpoint, "kind" | "name" | "dir">,
  names: readonly string[],
): Promise<Checkpoint> {
  const { dir } = what;
  const checkpoint: Checkpoint = { ...what, files: {}, bytes: 0, mtimeMs: 0 };
  for (const name of names) {
    const path = await realpath(join(dir, name)).catch(() => undefined);
    const stats = path === undefined ? undefined : await stat(path).catch(() => undefined);
    if (path === undefined || !stats) continue; // a link to nothing: a missing file is reported by its name
    checkpoint.files[name] = path;
    checkpoint.bytes += stats.size;
    checkpoint.mtimeMs = Math.max(checkpoint.mtimeMs, stats.mtimeMs);
  }
  return checkpoint;
}

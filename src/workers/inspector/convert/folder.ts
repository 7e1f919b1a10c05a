/** Opens a Hugging Face folder: its small files are parsed, the headers of its shards checked, and their files kept open. */

import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { isObject } from "../../../lib/json/object.ts";
import { MIB } from "../../../lib/units.ts";
import { readExactly, readInto } from "../../../platform/files.ts";
import { type PlacedTensor, parseSafetensors, SafetensorsError } from "../../checkpoints/safetensors.ts";
import type { SmallFiles } from "../../checkpoints/tokenizer/special.ts";

/** Name in the folder → path that this process may read. */
export type Files = Readonly<Record<string, string>>;
export type StoredTensor = PlacedTensor & { file: string; read: (into: Uint8Array, at: number) => Promise<void> };
export type Folder = {
  small: SmallFiles;
  sentencepiece: Uint8Array | undefined;
  tensors: ReadonlyMap<string, StoredTensor>;
  close: () => Promise<void>;
};

/** Bytes of memory that a parsed file may take follow from these. */
const LIMITS: Readonly<Record<string, number>> = { "tokenizer.json": 64 * MIB, "tokenizer.model": 32 * MIB };
const SMALL_BYTES = 8 * MIB;
const HEADER_BYTES = 32 * MIB;
const MAX_SHARDS = 1024;
const MAX_TENSORS = 200_000; // a mixture of experts has one for each expert
const INDEX = "model.safetensors.index.json";
const SINGLE = "model.safetensors";

/** Everything but the weights. */
export async function readSmallFiles(files: Files): Promise<Pick<Folder, "small" | "sentencepiece">> {
  const config = await readJson(files, "config.json");
  if (!isObject(config)) throw new CheckpointError("config.json is missing or is not an object");
  const small: SmallFiles = {
    config,
    tokenizer: await readJson(files, "tokenizer.json"),
    tokenizerConfig: await readJson(files, "tokenizer_config.json"),
    addedTokens: await readJson(files, "added_tokens.json"),
    specialTokensMap: await readJson(files, "special_tokens_map.json"),
    generationConfig: await readJson(files, "generation_config.json"),
    chatTemplate: await readText(files, "chat_template.jinja"),
    modules: await readJson(files, "modules.json"),
    pooling: await readJson(files, "1_Pooling/config.json"),
  };
  const sentencepiece = await readSmall(files, "tokenizer.model");
  if (small.tokenizer === undefined && sentencepiece === undefined)
    throw new CheckpointError("The folder has neither tokenizer.json nor tokenizer.model: copy the tokenizer into it");
  return { small, sentencepiece };
}

export async function openFolder(files: Files): Promise<Folder> {
  const read = await readSmallFiles(files);
  const handles: FileHandle[] = [];
  const close = async () => void (await Promise.all(handles.map((handle) => handle.close())));
  try {
    const index = await readJson(files, INDEX);
    const tensors = await openShards(files, index, handles);
    return { ...read, tensors, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openShards(files: Files, index: unknown, handles: FileHandle[]): Promise<Map<string, StoredTensor>> {
  const listed = index === undefined ? undefined : weightMap(index);
  const shards = listed ? [...new Set(listed.values())].sort() : shardsWithoutIndex(files);
  if (shards.length > MAX_SHARDS)
    throw new CheckpointError(`The folder has ${shards.length} shards; the maximum is ${MAX_SHARDS}`);
  const tensors = new Map<string, StoredTensor>();
  for (const shard of shards) {
    for (const tensor of await openShard(files, shard, handles)) {
      const { name } = tensor;
      if (tensors.has(name))
        throw new CheckpointError(`Tensor ${shown(name)} is in two files: ${tensors.get(name)?.file} and ${shard}`);
      if (listed && listed.get(name) !== shard)
        throw new CheckpointError(`${shard} has the tensor ${shown(name)}, but ${INDEX} does not list it there`);
      tensors.set(name, tensor);
    }
    if (tensors.size > MAX_TENSORS) throw new CheckpointError(`The folder has more than ${MAX_TENSORS} tensors`);
  }
  for (const [name, shard] of listed ?? [])
    if (!tensors.has(name))
      throw new CheckpointError(`${INDEX} lists the tensor ${shown(name)} in ${shard}, but it is not there`);
  return tensors;
}

function weightMap(index: unknown): Map<string, string> {
  const map = isObject(index) ? index.weight_map : undefined;
  if (!isObject(map)) throw new CheckpointError(`${INDEX} has no weight_map`);
  return new Map(
    Object.entries(map).map(([name, shard]) => {
      if (typeof shard !== "string" || !/^[\w.-]+\.safetensors$/.test(shard))
        throw new CheckpointError(
          `${INDEX} names the file ${shown(String(shard))}, which is not a safetensors file of the folder`,
        );
      return [name, shard];
    }),
  );
}

function shardsWithoutIndex(files: Files): string[] {
  const all = Object.keys(files).filter((name) => name.endsWith(".safetensors"));
  if (all.includes(SINGLE)) return [SINGLE];
  if (all.length === 1) return all;
  const old = Object.keys(files).find((name) => /\.(bin|pth?)$/.test(name));
  if (all.length === 0)
    throw new CheckpointError(
      old === undefined
        ? "The folder has no safetensors file"
        : `The folder has its weights in ${old}, which can run code: convert it to safetensors`,
    );
  throw new CheckpointError(`The folder has ${all.length} safetensors files, but no ${INDEX}: copy it into the folder`);
}

async function openShard(files: Files, shard: string, handles: FileHandle[]): Promise<StoredTensor[]> {
  const path = files[shard];
  if (path === undefined)
    throw new CheckpointError(`${shard} is missing, but ${INDEX} names it: copy it into the folder`);
  const { handle, size } = await openRegular(path, shard);
  handles.push(handle);
  const read = async (into: Uint8Array, at: number) => void (await readExactly(handle, into, at, tooShort(shard)));
  try {
    let bytes = new Uint8Array(Math.min(8, size));
    for (;;) {
      await read(bytes, 0);
      const parsed = parseSafetensors(bytes, size);
      if (!("need" in parsed)) return [...parsed.tensors.values()].map((tensor) => ({ ...tensor, file: shard, read }));
      if (parsed.need > HEADER_BYTES)
        throw new SafetensorsError(`The header has ${parsed.need} bytes; the maximum is ${HEADER_BYTES}`);
      bytes = new Uint8Array(parsed.need);
    }
  } catch (error) {
    throw error instanceof SafetensorsError
      ? new CheckpointError(`${shard}: ${error.message}`, { cause: error })
      : error;
  }
}

export const tooShort = (name: string) => () => new CheckpointError(`${name} became shorter while it was read`);

export async function openRegular(path: string, name: string): Promise<{ handle: FileHandle; size: number }> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK); // opening a named pipe must not block
  const stat = await handle.stat();
  if (stat.isFile()) return { handle, size: stat.size };
  await handle.close();
  throw new CheckpointError(`${name} is not a regular file`);
}

async function readSmall(files: Files, name: string): Promise<Uint8Array | undefined> {
  const path = files[name];
  if (path === undefined) return undefined;
  const { handle, size } = await openRegular(path, name);
  try {
    const most = LIMITS[name] ?? SMALL_BYTES;
    if (size > most) throw new CheckpointError(`${name} has ${size} bytes; the maximum is ${most}`);
    const bytes = new Uint8Array(size);
    return bytes.subarray(0, await readInto(handle, bytes, 0));
  } finally {
    await handle.close();
  }
}

async function readText(files: Files, name: string): Promise<string | undefined> {
  const bytes = await readSmall(files, name);
  if (!bytes) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new CheckpointError(`${name} is not text in UTF-8`);
  }
}

async function readJson(files: Files, name: string): Promise<unknown> {
  const text = await readText(files, name);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new CheckpointError(`${name} is not JSON`); // also for a text that is nested too deeply
  }
}

export const shown = (name: string) => JSON.stringify(name.slice(0, 80));

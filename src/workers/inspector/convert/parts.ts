/** Opens the parts of a split GGUF file as one model: the metadata of the first part and the tensors of all. */
import type { FileHandle } from "node:fs/promises";
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { GgufError, type Header, LIMITS, type Tensor } from "../../../lib/gguf/parse.ts";
import { partNames, type Split, splitOf } from "../../../lib/gguf/parts.ts";
import { readHeader } from "../../../lib/gguf/read.ts";
import type { Metadata, TensorSource } from "../../../lib/gguf/write.ts";
import { MIB } from "../../../lib/units.ts";
import { readExactly, readInto } from "../../../platform/files.ts";
import { type Files, openRegular, shown, tooShort } from "./folder.ts";

export type Parts = { metadata: Metadata; sources: TensorSource[]; close: () => Promise<void> };
type Part = { name: string; handle: FileHandle; header: Header };

const CHUNK_BYTES = 4 * MIB;
const MAX_PARTS = 1024;

/** Undefined: the files are not the parts of a split GGUF file. */
export function splitIn(files: Files): Split | undefined {
  const [first = ""] = Object.keys(files);
  return splitOf(first);
}

export async function openParts(files: Files, split: Split): Promise<Parts> {
  if (split.count > MAX_PARTS)
    throw new CheckpointError(`${split.stem} has ${split.count} parts; the maximum is ${MAX_PARTS}`);
  const parts: Part[] = [];
  const close = async () => void (await Promise.all(parts.map(({ handle }) => handle.close())));
  try {
    let tensors = 0;
    for (const [index, name] of partNames(split).entries()) {
      const part = await openPart(files, name);
      parts.push(part);
      requirePosition(part, index, split);
      tensors += part.header.tensors.size;
      if (tensors > LIMITS.tensors)
        throw new CheckpointError(`${split.stem} has more than ${LIMITS.tensors} tensors in its parts`);
    }
    const [first] = parts;
    if (!first) throw new CheckpointError(`${split.stem} has no parts`);
    requireWhole(parts, tensors);
    return { metadata: await metadataOf(first), sources: sourcesOf(parts), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openPart(files: Files, name: string): Promise<Part> {
  const path = files[name];
  if (path === undefined) throw new CheckpointError(`${name} is missing: copy it beside the other parts`);
  const { handle, size } = await openRegular(path, name);
  try {
    const header = await readHeader((into, at) => readInto(handle, into, at), size);
    return { name, handle, header };
  } catch (error) {
    await handle.close();
    throw error instanceof GgufError ? new CheckpointError(`${name}: ${error.message}`, { cause: error }) : error;
  }
}

const numberAt = ({ metadata }: Header, key: string) => {
  const value = metadata.get(key)?.value;
  return typeof value === "number" ? value : undefined;
};

function requirePosition({ name, header }: Part, index: number, { count }: Split) {
  const [number, all] = [numberAt(header, "split.no"), numberAt(header, "split.count")];
  if (number === undefined || all === undefined)
    throw new CheckpointError(`${name} is not a part of a split model: it has no split.no and split.count`);
  if (number !== index || all !== count)
    throw new CheckpointError(
      `${name} contains part ${number + 1} of ${all}: it belongs to another model or was renamed`,
    );
}

/** The number of tensors of the whole model is in every part. */
function requireWhole(parts: readonly Part[], tensors: number) {
  for (const { name, header } of parts) {
    const claimed = numberAt(header, "split.tensors.count");
    if (claimed !== tensors)
      throw new CheckpointError(
        `The parts have ${tensors} tensors, but ${name} says that the model has ${claimed ?? "none"}: a part belongs to another model`,
      );
  }
}

/** Keys about the parts and their padding do not fit the joined file. */
async function metadataOf({ handle, header, name }: Part): Promise<Metadata> {
  const metadata = new Map<string, Uint8Array>();
  for (const [key, { start, end }] of header.spans) {
    if (key === "general.alignment" || key.startsWith("split.")) continue;
    metadata.set(key, await readExactly(handle, new Uint8Array(end - start), start, tooShort(name)));
  }
  return metadata;
}

function sourcesOf(parts: readonly Part[]): TensorSource[] {
  const owners = new Map<string, string>();
  return parts.flatMap((part) =>
    [...part.header.tensors.values()].map((tensor) => {
      const owner = owners.get(tensor.name);
      if (owner !== undefined)
        throw new CheckpointError(`Tensor ${shown(tensor.name)} is in two parts: ${owner} and ${part.name}`);
      owners.set(tensor.name, part.name);
      const { name, type, dims } = tensor;
      return { name, type: type.name, dims, content: () => bytesOf(part, tensor) };
    }),
  );
}

async function* bytesOf({ handle, header, name }: Part, { offset, bytes }: Tensor): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(Math.min(CHUNK_BYTES, bytes));
  for (let at = 0; at < bytes; at += buffer.byteLength) {
    const piece = buffer.subarray(0, Math.min(buffer.byteLength, bytes - at));
    yield readExactly(handle, piece, header.dataStart + offset + at, tooShort(name));
  }
}

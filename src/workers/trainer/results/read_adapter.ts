/** Reads an adapter file in llama.cpp's format, to train it further. */
import { type FileHandle, open } from "node:fs/promises";
import { float, string } from "../../../lib/gguf/facts.ts";
import type { Header, Tensor } from "../../../lib/gguf/parse.ts";
import { readHeader } from "../../../lib/gguf/read.ts";
import { readExactly, readInto } from "../../../platform/files.ts";
import { WorkerError } from "../../protocol.ts";
import { loraNames } from "../engine/weights.ts";
import type { Adapter, AdapterLayer } from "./adapter.ts";

export async function readAdapterGguf(path: string): Promise<Adapter> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const header = await readHeader((into, at) => readInto(file, into, at), size);
    return await adapterIn(file, header);
  } finally {
    await file.close();
  }
}

async function adapterIn(file: FileHandle, header: Header): Promise<Adapter> {
  const layers: AdapterLayer[] = [];
  const ranks = new Set<number>();
  for (const { name, dims } of header.tensors.values()) {
    if (!name.endsWith(".lora_a")) continue;
    const of = name.slice(0, -".lora_a".length);
    const names = loraNames(of);
    const [a, b] = [header.tensors.get(names.a), header.tensors.get(names.b)];
    if (!a || !b) throw unreadable(`${name} has no matching second matrix`);
    ranks.add(dims[1] ?? 0);
    const [inputs = 1, outputs = 1] = [a.dims[0], b.dims[1]];
    layers.push({ name: of, inputs, outputs, a: await floats(file, header, a), b: await floats(file, header, b) });
  }
  const [rank] = ranks;
  if (rank === undefined || ranks.size > 1) throw unreadable(`its ranks are ${[...ranks].join(", ") || "missing"}`);
  const alpha = float(header, "adapter.lora.alpha", { min: 0, max: 1e6 }) || rank; // llama.cpp: 0 is a scale of 1
  return { architecture: string(header, "general.architecture") ?? "", rank, alpha, rslora: false, layers };
}

const unreadable = (why: string) => new WorkerError("config", `The adapter to start from cannot be trained: ${why}`);

async function floats(file: FileHandle, { dataStart }: Header, tensor: Tensor): Promise<Float32Array> {
  const bytes = new Uint8Array(tensor.bytes);
  const tooShort = () => unreadable("the file was truncated while it was read");
  await readExactly(file, bytes, dataStart + tensor.offset, tooShort);
  if (tensor.type.name === "F32") return new Float32Array(bytes.buffer);
  if (tensor.type.name === "F16") return new Float32Array(new Float16Array(bytes.buffer));
  if (tensor.type.name === "BF16")
    return new Float32Array(Uint32Array.from(new Uint16Array(bytes.buffer), (bits) => bits << 16).buffer);
  throw unreadable(`${tensor.name} has the type ${tensor.type.name}; only F32, F16 and BF16 are read`);
}

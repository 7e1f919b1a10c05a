/** An adapter in llama.cpp's format. */
import { float32Value, ggufChunks, type Metadata, type TensorSource, textValue } from "../../../lib/gguf/write.ts";
import { UNCOUNTED, type Written, writeStreamAtomic } from "../../../platform/files.ts";
import { loraNames, loraScale } from "../engine/weights.ts";
import { type Adapter, mustBeProducts } from "./adapter.ts";

export const writeAdapterGguf = (path: string, adapter: Adapter, name?: string): Promise<Written> =>
  writeStreamAtomic(path, adapterChunks(adapter, name), { meter: UNCOUNTED });

/** Returns the whole file in memory, for the sampling engine. */
export async function adapterBytes(adapter: Adapter): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of adapterChunks(adapter)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* adapterChunks(adapter: Adapter, name?: string): AsyncGenerator<Uint8Array> {
  mustBeProducts(adapter);
  // llama.cpp scales by alpha / rank and has no rslora. It reads an alpha of 0 as a scale of 1.
  const alpha = loraScale({ ...adapter, targets: [] }) * adapter.rank;
  if (!(alpha > 0)) throw new Error(`An adapter with alpha ${adapter.alpha} changes nothing`);
  const metadata: Metadata = new Map([
    ["general.type", textValue("adapter")],
    ["general.architecture", textValue(adapter.architecture)],
    ...(name === undefined ? [] : ([["general.name", textValue(name)]] as const)),
    ["adapter.type", textValue("lora")],
    ["adapter.lora.alpha", float32Value(alpha)],
  ]);
  yield* ggufChunks(metadata, tensorsOf(adapter));
}

const tensorsOf = ({ rank, layers }: Adapter): TensorSource[] =>
  layers.flatMap(({ name, inputs, outputs, a, b }) => {
    const names = loraNames(name);
    return [matrix(names.a, [inputs, rank], a), matrix(names.b, [rank, outputs], b)];
  });

const matrix = (name: string, dims: readonly number[], values: Float32Array): TensorSource => ({
  name,
  type: "F32",
  dims,
  content: () => [new Uint8Array(values.buffer, values.byteOffset, values.byteLength)],
});

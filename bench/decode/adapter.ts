/** An adapter of all seven matrices with random numbers, for a model of random weights. */
import { closeSync, openSync, writeSync } from "node:fs";
import { float32Value, ggufChunks, type Metadata, type TensorSource, textValue } from "../../src/lib/gguf/write.ts";
import type { RolloutShape } from "../peers/rollout_model.ts";

const POOL = 1 << 20; // numbers; tensors repeat them

export async function writeRandomAdapter(path: string, shape: RolloutShape, rank: number) {
  const { width, layers, heads, keyHeads, forward } = shape;
  const keys = (width / heads) * keyHeads;
  const sizes: Record<string, readonly [inputs: number, outputs: number]> = {
    attn_q: [width, width],
    attn_k: [width, keys],
    attn_v: [width, keys],
    attn_output: [width, width],
    ffn_gate: [width, forward],
    ffn_up: [width, forward],
    ffn_down: [forward, width],
  };
  const pool = Float32Array.from({ length: POOL }, () => (Math.random() - 0.5) / 100);
  const numbers = function* (count: number) {
    for (let left = count; left > 0; left -= POOL) yield new Uint8Array(pool.buffer, 0, Math.min(left, POOL) * 4);
  };
  const tensors = Array.from({ length: layers }, (_, layer) =>
    Object.entries(sizes).flatMap(([part, [inputs, outputs]]): TensorSource[] => {
      const name = `blk.${layer}.${part}.weight`;
      return [
        { name: `${name}.lora_a`, type: "F32", dims: [inputs, rank], content: () => numbers(inputs * rank) },
        { name: `${name}.lora_b`, type: "F32", dims: [rank, outputs], content: () => numbers(rank * outputs) },
      ];
    }),
  ).flat();
  const metadata: Metadata = new Map([
    ["general.type", textValue("adapter")],
    ["general.architecture", textValue("qwen2")],
    ["adapter.type", textValue("lora")],
    ["adapter.lora.alpha", float32Value(2 * rank)],
  ]);
  const fd = openSync(path, "w");
  for await (const chunk of ggufChunks(metadata, tensors)) writeSync(fd, chunk);
  closeSync(fd);
}

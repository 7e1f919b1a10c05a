/**
 * Tells if the logits of a row depend on the number of rows decoded with it. The library promises nothing: the kernel
 * depends on the processor and on the number of rows. On x86-64 the bits of F16 and quantized models are the same; on
 * Arm they change at 8 rows, by up to 2.5e-2. A test requires equal texts across batches only if this returns true.
 */
import { ptr, toArrayBuffer } from "bun:ffi";
import { must } from "../../src/native/ffi.ts";
import { openContext } from "../../src/native/llama/load.ts";
import { withModel } from "./reference.ts";

const SEQUENCES = 16;

/** Decodes the same tokens one by one and all together, with the library alone, and compares bit by bit. */
export const rowsAreIndependent = (modelPath: string): boolean =>
  withModel(modelPath, ({ llama, model, vocabSize }) => {
    const size = { contextTokens: SEQUENCES * 256, batchTokens: 512, microBatchTokens: 512 };
    const context = openContext(llama, model, {
      ...size,
      sequences: SEQUENCES,
      threads: 1,
      unified: false,
      embeddings: false,
    });
    const logitsOf = (sequences: readonly number[]): Float32Array[] => {
      const n = sequences.length;
      const tokens = Int32Array.from(sequences, (each) => 97 + each);
      const ids = Int32Array.from(sequences);
      const lists = BigUint64Array.from(sequences, (_, i) => BigInt(ptr(ids)) + BigInt(4 * i));
      llama.llama_memory_clear(llama.llama_get_memory(context), true);
      const [zeros, ones] = [new Int32Array(n), new Int32Array(n).fill(1)];
      const code = llama.llama_decode(context, n, tokens, zeros, ones, lists, new Int8Array(n).fill(1));
      if (code !== 0) throw new Error(`llama_decode returned ${code}`);
      return sequences.map((_, row) => {
        const at = must(llama.llama_get_logits_ith(context, row), "logits");
        return new Float32Array(toArrayBuffer(at, 0, vocabSize * 4)).slice();
      });
    };
    const all = Array.from({ length: SEQUENCES }, (_, i) => i);
    const together = logitsOf(all);
    const alone = all.flatMap((sequence) => logitsOf([sequence]));
    llama.llama_free(context);
    return together.every((row, i) => Buffer.from(row.buffer).equals(Buffer.from(alone[i]!.buffer)));
  });

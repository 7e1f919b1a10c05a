/** Puts the adapter that a training starts from into the trainable tensors, and back again for reference scores. */
import { getFloats, putBytes } from "../../../native/ggml/ggml.ts";
import { WorkerError } from "../../protocol.ts";
import { loraNames, loraScale, type Weights } from "../engine/weights.ts";
import type { Adapter } from "../results/adapter.ts";

export type AdapterSlot = {
  readonly hasStart: boolean;
  startFrom: (adapter: Adapter) => void;
  /** Runs `work` with the start adapter in place of the current one, which is restored afterwards. */
  withStart: <T>(work: () => Promise<T>) => Promise<T>;
};

/** Both adapters are kept in memory of the host: they are small, and the device needs only one of them. */
export function openSlot({ backend: { ggml }, trainable, lora }: Weights): AdapterSlot {
  let start: Float32Array[] | null = null;
  const put = (values: readonly Float32Array[]) => {
    for (const [i, { tensor }] of trainable.entries()) putBytes(ggml, tensor, values[i]!);
  };
  return {
    get hasStart() {
      return start !== null;
    },
    startFrom(adapter) {
      if (!lora) throw new WorkerError("config", "A training of all weights cannot start from an adapter");
      const values = valuesOf(adapter, loraScale(lora));
      const count = values.size;
      start = trainable.map(({ name, shape }) => {
        const matrix = values.get(name);
        if (matrix?.length === shape.reduce((a, b) => a * b, 1)) return matrix;
        throw misfit(`its ${name} ${matrix ? "has another size" : "is missing"}`);
      });
      if (count !== trainable.length) throw misfit(`it has ${count} matrices, and this training ${trainable.length}`);
      put(start);
    },
    async withStart(work) {
      if (!start) return work();
      const current = trainable.map(({ tensor }) => getFloats(ggml, tensor));
      put(start);
      try {
        return await work();
      } finally {
        put(current);
      }
    },
  };
}

const misfit = (why: string) =>
  new WorkerError("config", `The adapter to start from does not fit the LoRA settings of this training: ${why}`);

/** B is scaled, so that another alpha gives the same model. */
function valuesOf(adapter: Adapter, scale: number): Map<string, Float32Array> {
  const factor = loraScale({ ...adapter, targets: [] }) / scale;
  return new Map(
    adapter.layers.flatMap(({ name, a, b }) => {
      const names = loraNames(name);
      return [
        [names.a, a],
        [names.b, factor === 1 ? b : b.map((value) => value * factor)],
      ] as const;
    }),
  );
}

/** The vision encoder in plain loops, by its definition: an independent check of the graph. */
import { type ProjectorOptions, projectorShape, projectorTensors, type TestProjector } from "./projectors.ts";

type Rows = Float64Array[];

/** `patches`: those of one square. Returns the rows for the language model. */
export function referenceRows(options: ProjectorOptions, patches: Float32Array): Rows {
  const of = projectorShape(options);
  const tensors = new Map(projectorTensors(options).map(({ name, values }) => [name, values]));
  const must = (name: string) => tensors.get(name) as Float32Array;
  const add = (a: Rows, b: Rows): Rows => a.map((row, i) => row.map((value, j) => value + b[i]![j]!));
  const linear = (name: string, x: Rows): Rows => {
    const weight = must(`${name}.weight`);
    const bias = tensors.get(`${name}.bias`);
    return x.map((row) => {
      const to = weight.length / row.length;
      return Float64Array.from({ length: to }, (_, o) => {
        let sum = bias?.[o] ?? 0;
        for (let i = 0; i < row.length; i++) sum += weight[o * row.length + i]! * row[i]!;
        return sum;
      });
    });
  };
  const norm = (name: string, x: Rows): Rows =>
    tensors.has(`${name}.weight`)
      ? x.map((row) =>
          normalised(row, of.epsilon, true).map((v, i) => v * must(`${name}.weight`)[i]! + must(`${name}.bias`)[i]!),
        )
      : x;
  const length = of.patchSize ** 2 * 3;
  const cut = Array.from({ length: of.patches }, (_, i) =>
    Float64Array.from(patches.subarray(i * length, (i + 1) * length)),
  );
  let x = linear("v.patch_embd", cut);
  if (of.hasClass) x = [Float64Array.from(must("v.class_embd")), ...x];
  const positions = must("v.position_embd.weight");
  x = x.map((row, i) => row.map((value, j) => value + positions[i * of.width + j]!));
  x = norm("v.pre_ln", x);
  const layers = of.kind === "mlp" ? of.layers - 1 : of.layers;
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string) => `v.blk.${layer}.${part}`;
    const inner = norm(name("ln1"), x);
    const [q, k, v] = ["attn_q", "attn_k", "attn_v"].map((part) => linear(name(part), inner)) as [Rows, Rows, Rows];
    x = add(x, linear(name("attn_out"), attend(q, k, v, of)));
    const active = linear(name("ffn_up"), norm(name("ln2"), x)).map((row) => row.map(of.kind === "mlp" ? quick : gelu));
    x = add(x, linear(name("ffn_down"), active));
  }
  x = norm("v.post_ln", x);
  if (of.hasClass) x = x.slice(1);
  if (of.kind === "mlp")
    return linear(
      "mm.2",
      linear("mm.0", x).map((row) => row.map(gelu)),
    );
  const groups = neighbours(x, of);
  if (of.kind === "idefics3")
    return linear(
      "mm.model.fc",
      groups.map((group) => Float64Array.from(group.flatMap((row) => [...row]))),
    );
  const scale = must("mm.soft_emb_norm.weight");
  const matrix = must("mm.input_projection.weight"); // [outputs, width]: the outputs are its rows
  return groups.map((group) => {
    const mean = Float64Array.from(
      { length: of.width },
      (_, j) => group.reduce((sum, row) => sum + row[j]!, 0) / group.length,
    );
    const scaled = normalised(mean, of.epsilon, false).map((value, j) => value * scale[j]!);
    return Float64Array.from({ length: of.outputs }, (_, o) => {
      let sum = 0;
      for (let j = 0; j < of.width; j++) sum += matrix[j * of.outputs + o]! * scaled[j]!;
      return sum;
    });
  });
}

const quick = (x: number) => x / (1 + Math.exp(-1.702 * x));
const gelu = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function normalised(row: Float64Array, epsilon: number, centred: boolean): Float64Array {
  const mean = centred ? row.reduce((a, b) => a + b, 0) / row.length : 0;
  const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
  return row.map((value) => (value - mean) / Math.sqrt(variance + epsilon));
}

function attend(q: Rows, k: Rows, v: Rows, { width, heads }: TestProjector): Rows {
  const head = width / heads;
  return q.map((query) => {
    const out = new Float64Array(width);
    for (let h = 0; h < heads; h++) {
      const scores = k.map((key) => {
        let sum = 0;
        for (let i = h * head; i < (h + 1) * head; i++) sum += query[i]! * key[i]!;
        return Math.exp(sum / Math.sqrt(head));
      });
      const total = scores.reduce((a, b) => a + b, 0);
      for (let i = h * head; i < (h + 1) * head; i++)
        out[i] = scores.reduce((sum, score, t) => sum + (score / total) * v[t]![i]!, 0);
    }
    return out;
  });
}

/** The patches of each block of `merge` × `merge`, row by row. */
function neighbours(x: Rows, { patches, merge }: TestProjector): Rows[] {
  const side = Math.sqrt(patches);
  const groups: Rows[] = [];
  for (let y = 0; y < side; y += merge)
    for (let left = 0; left < side; left += merge)
      groups.push(
        Array.from({ length: merge * merge }, (_, i) => x[(y + Math.floor(i / merge)) * side + left + (i % merge)]!),
      );
  return groups;
}

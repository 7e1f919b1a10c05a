/** BERT in plain arithmetic, for the models of encoders.ts: what the engine computes is compared with it. */
import { ENCODER, encoderTensors } from "./encoders.ts";

type Rows = number[][];

export function encoderReference(labels: number, context: number) {
  const tensors = new Map(encoderTensors(labels, context).map(({ name, values }) => [name, values]));
  const vector = (name: string) => tensors.get(name) ?? new Float32Array();
  const row = (name: string, at: number) => [...vector(name).subarray(at * ENCODER.width, (at + 1) * ENCODER.width)];
  const linear = (name: string, input: number[]) =>
    [...vector(`${name}.bias`)].map((bias, out) =>
      input.reduce((sum, value, i) => sum + value * vector(`${name}.weight`)[out * input.length + i]!, bias),
    );
  const norm = (name: string, input: number[]) => {
    const mean = input.reduce((sum, value) => sum + value, 0) / input.length;
    const spread = input.reduce((sum, value) => sum + (value - mean) ** 2, 0) / input.length;
    const scale = 1 / Math.sqrt(spread + ENCODER.epsilon);
    return input.map((value, i) => (value - mean) * scale * vector(`${name}.weight`)[i]! + vector(`${name}.bias`)[i]!);
  };
  const states = (tokens: readonly number[]): Rows => {
    let rows = tokens.map((token, i) => {
      const parts = [row("token_embd.weight", token), row("token_types.weight", 0), row("position_embd.weight", i)];
      return norm("token_embd_norm", sum(...parts));
    });
    for (let layer = 0; layer < ENCODER.layers; layer++) {
      const at = (part: string) => `blk.${layer}.${part}`;
      const [q, k, v] = ["attn_q", "attn_k", "attn_v"].map((part) => rows.map((each) => linear(at(part), each)));
      const seen = attention(q!, k!, v!);
      rows = rows.map((each, i) => norm(at("attn_output_norm"), sum(each, linear(at("attn_output"), seen[i]!))));
      rows = rows.map((each) =>
        norm(at("layer_output_norm"), sum(each, linear(at("ffn_down"), linear(at("ffn_up"), each).map(gelu)))),
      );
    }
    return rows;
  };
  return {
    mean: (tokens: readonly number[]) => unit(sum(...states(tokens))),
    cls: (tokens: readonly number[]) => unit(states(tokens)[0]!),
    last: (tokens: readonly number[]) => unit(states(tokens).at(-1)!),
    rank: (tokens: readonly number[]) => linear("cls.output", linear("cls", states(tokens)[0]!).map(Math.tanh)),
  };
}

const sum = (...rows: Rows): number[] => rows[0]!.map((_, i) => rows.reduce((total, row) => total + row[i]!, 0));

function unit(row: number[]): number[] {
  const length = Math.hypot(...row);
  return row.map((value) => value / length);
}

const gelu = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** Every token sees all others. */
function attention(q: Rows, k: Rows, v: Rows): Rows {
  const size = ENCODER.width / ENCODER.heads;
  return q.map((query) => {
    const out: number[] = [];
    for (let from = 0; from < ENCODER.width; from += size) {
      const scores = k.map((key) => {
        let dot = 0;
        for (let i = from; i < from + size; i++) dot += query[i]! * key[i]!;
        return Math.exp(dot / Math.sqrt(size));
      });
      const total = scores.reduce((a, b) => a + b, 0);
      for (let i = from; i < from + size; i++)
        out.push(v.reduce((mixed, value, at) => mixed + (scores[at]! / total) * value[i]!, 0));
    }
    return out;
  });
}

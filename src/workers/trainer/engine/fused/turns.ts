/** Tables of the rotation by positions, as ggml computes it. Pure. */
import type { Architecture } from "../architecture.ts";

type Of = Pick<Architecture, "headLength" | "rotated" | "ropeBase" | "ropeScale" | "yarn">;

/** [tokens, pairs of a head]: cosine and sine. Pairs behind the rotated part keep their place. */
export function turnsOf(of: Of, tokens: number, factors: Float32Array | null): Float32Array {
  const pairs = of.headLength / 2;
  const turns = noTurns(of, tokens);
  const length = lengthOf(of);
  for (let pair = 0; pair < of.rotated / 2; pair++) {
    const speed = speedOf(of, pair) / (factors?.[pair] ?? 1);
    for (let position = 0; position < tokens; position++) {
      const at = (position * pairs + pair) * 2;
      turns[at] = length * Math.cos(position * speed);
      turns[at + 1] = length * Math.sin(position * speed);
    }
  }
  return turns;
}

/** The same for layers that do not rotate. */
export const noTurns = ({ headLength }: Pick<Architecture, "headLength">, tokens: number): Float32Array =>
  Float32Array.from({ length: tokens * headLength }, (_, i) => 1 - (i % 2));

/** YaRN: fast pairs turn as they were trained, slow ones are scaled, those between are a mix. */
function speedOf({ rotated, ropeBase, ropeScale, yarn }: Of, pair: number): number {
  const trained = ropeBase ** ((-2 * pair) / rotated);
  if (yarn.mix === 0) return ropeScale * trained;
  const pairOf = (turns: number) =>
    (rotated * Math.log(yarn.originalContext / (turns * 2 * Math.PI))) / (2 * Math.log(ropeBase));
  const first = Math.max(0, Math.floor(pairOf(yarn.betaFast)));
  const last = Math.min(rotated - 1, Math.ceil(pairOf(yarn.betaSlow)));
  const slow = Math.min(1, Math.max(0, (pair - first) / Math.max(0.001, last - first)));
  const kept = (1 - slow) * yarn.mix;
  return trained * (ropeScale * (1 - kept) + kept);
}

/** Rotated vectors are longer or shorter by this factor. */
const lengthOf = ({ yarn, ropeScale }: Of) =>
  yarn.attentionFactor * (yarn.mix === 0 ? 1 : 1 + 0.1 * Math.log(1 / ropeScale));

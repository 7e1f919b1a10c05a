/** The cosine of the embeddings of output and reference, from -1 to 1. */
import type { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { embed } from "../../../serving/deployments/chat/generate.ts";
import { mustFind } from "../../../serving/deployments/served.ts";
import type { SimilarityConfig } from "../config.ts";
import { type EvaluationItem, failed, scored, type Verdict } from "../item.ts";
import type { Evaluation } from "../run.ts";

const BATCH = 32; // pairs in one request

export async function similarity(
  ctx: Ctx,
  { deployment }: z.output<typeof SimilarityConfig>,
  { workspaceId, items, signal }: Evaluation,
): Promise<Verdict[]> {
  const { id: deploymentId } = mustFind(ctx, workspaceId, deployment);
  const vectorsOf = (input: string[]) => embed(ctx, { workspaceId, deploymentId, input, signal, background: true });
  const verdicts: Verdict[] = [];
  for (let from = 0; from < items.length; from += BATCH)
    verdicts.push(...(await compare(items.slice(from, from + BATCH), vectorsOf, signal)));
  return verdicts;
}

type VectorsOf = (texts: string[]) => Promise<number[][]>;

/** If a batch fails, its pairs are tried one by one: one text may be too long for the model. */
async function compare(
  items: readonly EvaluationItem[],
  vectorsOf: VectorsOf,
  signal: AbortSignal,
): Promise<Verdict[]> {
  const startedAt = performance.now();
  const pairs = items.map(({ output, reference }) => (output && reference ? [output, reference] : null));
  try {
    const vectors = pairs.some(Boolean) ? await vectorsOf(pairs.flatMap((pair) => pair ?? [])) : [];
    const ms = (performance.now() - startedAt) / items.length;
    let at = 0;
    return pairs.map((pair) => {
      if (!pair) return failed("The row needs an output and a reference that are not empty", ms);
      const score = cosine(vectors[at++], vectors[at++]);
      return score === null ? failed("The deployment answered without a usable embedding", ms) : scored(score, ms);
    });
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError)) throw error;
    if (items.length === 1) return [failed(error.message, performance.now() - startedAt)];
    const verdicts: Verdict[] = [];
    for (const item of items) verdicts.push(...(await compare([item], vectorsOf, signal)));
    return verdicts;
  }
}

/** Null if a vector is missing, of another length, zero or not finite. */
export function cosine(a: readonly number[] | undefined, b: readonly number[] | undefined): number | null {
  if (!a || !b || a.length !== b.length) return null;
  let product = 0;
  let squareA = 0;
  let squareB = 0;
  for (let i = 0; i < a.length; i++) {
    product += a[i]! * b[i]!;
    squareA += a[i]! ** 2;
    squareB += b[i]! ** 2;
  }
  const cosine = product / Math.sqrt(squareA * squareB);
  return Number.isFinite(cosine) ? Math.max(-1, Math.min(1, cosine)) : null;
}

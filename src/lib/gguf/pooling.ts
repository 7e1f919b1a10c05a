/** Models that compute one vector of a text: embeddings, and scores of pairs. */
import { count, string } from "./facts.ts";
import { GgufError, type Header } from "./parse.ts";

/**
 * How the states of a text's tokens become its embedding, in the order of the numbers in `ARCHITECTURE.pooling_type`:
 * their mean, the first, the last. `rank` is the score of a pair of texts.
 */
export const POOLINGS = ["none", "mean", "cls", "last", "rank"] as const;
export type Pooling = (typeof POOLINGS)[number];

/** `code`: the number in the file, if there is one. A file that names no pooling gets the mean. */
export function poolingNamed(code: number | undefined): Exclude<Pooling, "none"> {
  const name = POOLINGS[code ?? 0];
  return name === undefined || name === "none" ? "mean" : name;
}

/** `encoder`: every token sees all others, so the model generates no text and has no cache. */
export function encoderOf(header: Header, architecture: string): { encoder?: true } {
  const causal = header.metadata.get(`${architecture}.attention.causal`);
  if (causal && causal.type !== "bool")
    throw new GgufError(`${architecture}.attention.causal must be a bool, not ${causal.type}`);
  const pooling = count(header, `${architecture}.pooling_type`, { min: 0, max: POOLINGS.length - 1 }, 0);
  const hasHead = header.tensors.has("cls.weight") || header.tensors.has("cls.output.weight");
  if (POOLINGS[pooling] === "rank" && !hasHead)
    throw new GgufError(
      `${architecture}.pooling_type is ${pooling}, a reranker, but the file has no tensor cls.output.weight`,
    );
  return causal?.value === false ? { encoder: true } : {};
}

/** Projectors turn images or sounds into inputs of a language model. They come in a file of their own. */
export function refuseProjector(header: Header, architecture: string) {
  if (architecture !== "clip" && string(header, "general.type") !== "mmproj") return;
  throw new GgufError(
    "The file is a projector for images or sounds (mmproj), not a language model. Import it with its model: verk models import MODEL --mmproj FILE",
  );
}

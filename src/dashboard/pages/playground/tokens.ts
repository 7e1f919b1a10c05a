/** Tokens of an answer with their probability. Pure. */
export type Alternative = { token: string; logprob: number; bytes: number[] | null };
export type Token = Alternative & { top_logprobs: Alternative[] };

export type Span = { text: string; share: number; others: readonly { text: string; share: number }[] };

/** A character may be split over several tokens: it stands in the last of them. */
export function spansOf(tokens: readonly Token[]): Span[] {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  return tokens.map(({ token, bytes, logprob, top_logprobs: top }, i) => ({
    text: decoder.decode(bytes ? Uint8Array.from(bytes) : encoder.encode(token), { stream: i < tokens.length - 1 }),
    share: Math.exp(logprob),
    others: top
      .filter((other) => other.token !== token)
      .map((other) => ({ text: other.token, share: Math.exp(other.logprob) })),
  }));
}

const TONES = [
  [0.9, "sure"],
  [0.5, "likely"],
  [0.15, "unsure"],
] as const;

/** The class of a token by its probability. */
export const toneOf = (share: number): string => TONES.find(([least]) => share >= least)?.[1] ?? "rare";

/** A token in words, for its title: `"4" 62 %, else "5" 30 %` */
export function wordsOf({ text, share, others }: Span): string {
  const one = (each: { text: string; share: number }) =>
    `${JSON.stringify(each.text)} ${(each.share * 100).toFixed(1)} %`;
  const rest = others.map(one).join(", ");
  return rest === "" ? one({ text, share }) : `${one({ text, share })}, else ${rest}`;
}

/** Tokens of an answer with their probability. Pure. */
export type Alternative = { token: string; logprob: number; bytes: number[] | null };
export type Token = Alternative & { top_logprobs: Alternative[] };

/** `from`: the place of its text among the texts of all tokens. */
export type Span = { text: string; from: number; share: number; others: readonly { text: string; share: number }[] };

/** Reads a growing list of tokens, each once. A character may be split over several tokens: it stands in the last of them. */
export function spanReader(): (tokens: readonly Token[]) => { spans: readonly Span[]; text: string } {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const spans: Span[] = [];
  let all = "";
  return (tokens) => {
    for (const { token, bytes, logprob, top_logprobs: top } of tokens.slice(spans.length)) {
      const text = decoder.decode(bytes ? Uint8Array.from(bytes) : encoder.encode(token), { stream: true });
      const others = top.filter((other) => other.token !== token);
      spans.push({
        text,
        from: all.length,
        share: Math.exp(logprob),
        others: others.map((other) => ({ text: other.token, share: Math.exp(other.logprob) })),
      });
      all += text;
    }
    return { spans, text: all };
  };
}

/** The parts of the spans between two places. */
export function spansBetween(spans: readonly Span[], from: number, to: number): { span: Span; text: string }[] {
  let [low, high] = [0, spans.length]; // the first span that ends after `from`
  while (low < high) {
    const middle = (low + high) >> 1;
    const span = spans[middle];
    if (span && span.from + span.text.length <= from) low = middle + 1;
    else high = middle;
  }
  const parts: { span: Span; text: string }[] = [];
  for (let span = spans[low]; span && span.from < to; span = spans[++low]) {
    const text = span.text.slice(Math.max(0, from - span.from), to - span.from);
    if (text !== "") parts.push({ span, text });
  }
  return parts;
}

const TONES = [
  [0.9, "sure"],
  [0.5, "likely"],
  [0.15, "unsure"],
] as const;

/** The class of a token by its probability. */
export const toneOf = (share: number): string => TONES.find(([least]) => share >= least)?.[1] ?? "rare";

/** A token in words, for its title: `"4" 62 %, else "5" 30 %` */
export function wordsOf({ text, share, others }: Omit<Span, "from">): string {
  const one = (each: { text: string; share: number }) =>
    `${JSON.stringify(each.text)} ${(each.share * 100).toFixed(1)} %`;
  const rest = others.map(one).join(", ");
  return rest === "" ? one({ text, share }) : `${one({ text, share })}, else ${rest}`;
}

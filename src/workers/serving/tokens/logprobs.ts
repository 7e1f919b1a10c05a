/** Log-probabilities in the form of /completions, and those of a prompt. */
import type { CompletionLogprobs } from "../../../lib/chat/completion.ts";
import { finite } from "../answer.ts";
import type { TokenLogprob } from "../engine/types.ts";
import type { Exchange, Served } from "../request.ts";

export const noLogprobs = (): CompletionLogprobs => ({
  tokens: [],
  token_logprobs: [],
  top_logprobs: [],
  text_offset: [],
});

const strict = new TextDecoder("utf-8", { fatal: true });

/** A piece that is not a whole character is written as its bytes. */
function pieceOf(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}

export function legacyLogprobs(tokens: readonly TokenLogprob[], choice: { offset: number }): CompletionLogprobs {
  const out = noLogprobs();
  for (const { bytes, logprob, top } of tokens) {
    const piece = pieceOf(bytes);
    out.tokens.push(piece);
    out.token_logprobs.push(finite(logprob));
    out.top_logprobs?.push(Object.fromEntries(top.map((t) => [pieceOf(t.bytes), finite(t.logprob)])));
    out.text_offset.push(choice.offset);
    choice.offset += piece.length;
  }
  return out;
}

export function append(to: CompletionLogprobs, more: CompletionLogprobs): CompletionLogprobs {
  to.tokens.push(...more.tokens);
  to.token_logprobs.push(...more.token_logprobs);
  to.top_logprobs?.push(...(more.top_logprobs ?? []));
  to.text_offset.push(...more.text_offset);
  return to;
}

const FORCED = 1e9; // a bias that no other logit outweighs; log-probabilities do not contain it
const GREEDY = { temperature: 0, topP: 1, topK: 0, minP: 0, frequencyPenalty: 0, presencePenalty: 0 };

/**
 * The log-probability of each token of a prompt after those before it. Each token is forced once, one after the other;
 * the cache holds the tokens before it. The first token has none.
 */
export async function promptLogprobs(
  { engine, adapter }: Served,
  prompt: Int32Array,
  { alternatives, exchange: { signal } }: { alternatives: number; exchange: Exchange },
): Promise<CompletionLogprobs> {
  const place = { offset: 0 };
  const first = engine.detokenize(prompt.slice(0, 1));
  const all: CompletionLogprobs = { tokens: [first], token_logprobs: [null], top_logprobs: [null], text_offset: [0] };
  place.offset = first.length;
  for (let i = 1; i < prompt.length; i++) {
    const token = prompt[i] as number;
    const run = engine.generate(
      {
        prompt: prompt.slice(0, i),
        maxTokens: 1,
        sampling: { ...GREEDY, logitBias: [[token, FORCED]] },
        samples: 1,
        stop: [],
        topLogprobs: Math.max(alternatives, 1),
        wantTokens: true, // an end token counts too
        ...(adapter === undefined ? {} : { adapter }),
      },
      signal,
    );
    for await (const deltas of run)
      for (const { logprobs = [] } of deltas)
        append(
          all,
          legacyLogprobs(
            logprobs.slice(0, 1).map((each) => withTop(each, alternatives)),
            place,
          ),
        );
    signal.throwIfAborted();
  }
  return all;
}

const withTop = (scored: TokenLogprob, count: number): TokenLogprob => ({ ...scored, top: scored.top.slice(0, count) });

/**
 * Text → tokens. Control tokens of a template are read as such; the same text inside a message is not. A user who types
 * <|im_end|> has typed ten characters. Such text passes through the template as a mark of private-use characters and is
 * then put back as plain text. Not covered: control tokens without angle or square brackets, and /completions, whose
 * prompt is the caller's own.
 */
import { AppError } from "../../lib/errors.ts";
import type { Engine } from "./engine/types.ts";

const CANDIDATES = [/<[^<>\s]{1,62}>/g, /\[[^[\]\s]{1,62}\]/g];
const MAX_KNOWN = 10_000;
const LONGEST_TOKEN = 128; // in characters: a run of spaces
const OPEN = "\uE0F0";
const CLOSE = "\uE0F1";

type Tokenizer = Pick<Engine, "tokenize" | "facts">;

export type Quotes = {
  quote: (text: string) => string;
  /** `continues`: the text follows an image, so no token marks its beginning. */
  tokenize: (rendered: string, continues?: boolean) => Int32Array;
};

/** Remembers which texts are control tokens, for the life of the model. */
export function createQuoting(engine: Tokenizer): () => Quotes {
  const controls = new Map<string, boolean>();
  const isControl = (text: string): boolean => {
    let control = controls.get(text);
    if (control === undefined) {
      const special = engine.tokenize(text, { addBos: false, special: true });
      control = special.length === 1 && engine.tokenize(text, { addBos: false, special: false })[0] !== special[0];
      if (controls.size >= MAX_KNOWN) controls.clear();
      controls.set(text, control);
    }
    return control;
  };
  return () => {
    const quoted: string[] = [];
    const nonce = crypto.randomUUID().slice(0, 8); // no client can guess a mark of this request
    const mark = (text: string) => (isControl(text) ? `${OPEN}${nonce}${quoted.push(text) - 1}${CLOSE}` : text);
    return {
      quote(text) {
        refuseHopeless(text.length, engine.facts.contextLength);
        return CANDIDATES.reduce((out, pattern) => out.replace(pattern, mark), text);
      },
      tokenize(rendered, continues = false) {
        const { bosToken, addsBos, contextLength } = engine.facts;
        refuseHopeless(rendered.length, contextLength);
        const hasBos = bosToken !== "" && rendered.startsWith(bosToken);
        const addBos = addsBos && !hasBos && !continues;
        if (quoted.length === 0) return engine.tokenize(rendered, { addBos, special: true });
        const parts = rendered.split(new RegExp(`${OPEN}${nonce}(\\d+)${CLOSE}`, "u"));
        return joined(
          parts.map((part, i) =>
            i % 2 === 0
              ? engine.tokenize(part, { addBos: addBos && i === 0, special: true })
              : engine.tokenize(quoted[Number(part)] ?? "", { addBos: false, special: false }),
          ),
        );
      },
    };
  };
}

/**
 * Ten megabytes take seconds to tokenize, and no stream continues meanwhile. A prompt that cannot fit is rejected
 * first.
 */
export function refuseHopeless(characters: number, contextLength: number, param?: string) {
  if (characters <= contextLength * LONGEST_TOKEN) return;
  throw new AppError(
    "context_length_exceeded",
    `The prompt has ${characters} characters, but the context holds ${contextLength} tokens. Shorten the prompt, or deploy with a larger context_length`,
    param === undefined ? {} : { param },
  );
}

export function joined(parts: readonly Int32Array[]): Int32Array {
  const out = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/**
 * A prompt of /completions or /embeddings: text, or the tokens themselves. `whole`: the text also gets the tokens that
 * end it, which the embeddings of some models need.
 */
export function promptTokens(
  engine: Tokenizer,
  prompt: string | readonly number[],
  at: string,
  whole = false,
): Int32Array {
  const { addsBos, vocabSize, contextLength } = engine.facts;
  if (typeof prompt === "string") {
    refuseHopeless(prompt.length, contextLength, at);
    const tokens = engine.tokenize(prompt, { addBos: whole || addsBos, special: true });
    if (tokens.length === 0) throw new AppError("schema", `${at.slice(1)}: must not be empty`, { param: at });
    return tokens;
  }
  const bad = prompt.findIndex((token) => token >= vocabSize);
  if (bad >= 0)
    throw new AppError(
      "schema",
      `${at.slice(1)}: token ${prompt[bad]} does not exist. The model has tokens from 0 to ${vocabSize - 1}`,
      {
        param: `${at}/${bad}`,
      },
    );
  return Int32Array.from(prompt);
}

/** Returns how many tokens may be generated: the requested number, limited by the context. */
export function roomFor(promptLength: number, requested: number | null | undefined, contextLength: number): number {
  const room = contextLength - promptLength;
  if (room <= 0)
    throw new AppError(
      "context_length_exceeded",
      `The prompt has ${promptLength} tokens, but the context holds ${contextLength}. Shorten the prompt, or deploy with a larger context_length`,
      { more: { n_prompt_tokens: promptLength, n_ctx: contextLength } },
    );
  return Math.min(requested ?? room, room);
}

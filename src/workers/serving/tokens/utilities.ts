/** Answers that need the loaded model but generate nothing: tokens of a text, the text of tokens, a rendered prompt. */
import type { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import type { DetokenizeRequest, TokenizeRequest } from "../../../lib/chat/tokens.ts";
import { renderPrompt } from "../chat.ts";
import { promptTokens } from "../prompt.ts";
import type { Exchange, Served } from "../request.ts";

export async function tokenize({ engine }: Served, request: TokenizeRequest): Promise<Response> {
  const { content, add_special: addBos, parse_special: special, with_pieces: pieces } = request;
  const tokens = [...engine.tokenize(content, { addBos: addBos && engine.facts.addsBos, special })];
  if (!pieces) return Response.json({ tokens });
  const shown = tokens.map((id) => ({ id, piece: engine.detokenize(Int32Array.of(id)) }));
  return Response.json({ tokens: shown });
}

export async function detokenize({ engine }: Served, request: DetokenizeRequest): Promise<Response> {
  const { tokens, with_pieces: isSplit } = request;
  const ids = tokens.length === 0 ? new Int32Array() : promptTokens(engine, tokens, "/tokens");
  const content = engine.detokenize(ids);
  return Response.json(isSplit ? { content, pieces: piecesOf({ engine }, ids) } : { content });
}

const MOST_BYTES = 4; // of a character
const CUT = "\uFFFD";

/** A character that several tokens share is the text of the last of them. */
function piecesOf({ engine }: Pick<Served, "engine">, tokens: Int32Array): string[] {
  let from = 0;
  return Array.from(tokens, (_, i) => {
    const text = engine.detokenize(tokens.subarray(from, i + 1));
    if (text.endsWith(CUT) && i - from + 1 < MOST_BYTES && i + 1 < tokens.length) return "";
    from = i + 1;
    return text;
  });
}

/** The prompt of a chat request, how many tokens it has and, with `verbose`, these tokens. */
export async function applyTemplate(
  served: Served,
  request: ChatCompletionRequest,
  { signal }: Pick<Exchange, "signal">,
): Promise<Response> {
  const { text, prompt } = await renderPrompt(served, request, signal);
  const tokens = request.verbose ? { tokens: [...prompt] } : {};
  return Response.json({ prompt: text, input_tokens: prompt.length, ...tokens });
}

/** Facts of the loaded model for clients of llama.cpp. */
export async function props({ engine, vision }: Served): Promise<Response> {
  const { contextLength, parallel, bosToken, eosToken, chatTemplate, architecture, vocabSize } = engine.facts;
  return Response.json({
    context_length: contextLength,
    parallel,
    bos_token: bosToken,
    eos_token: eosToken,
    chat_template: chatTemplate ?? "",
    architecture,
    vocab_size: vocabSize,
    vision: vision !== null,
    active: engine.stats().active,
  });
}

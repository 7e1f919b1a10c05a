/** The native completions of llama.cpp as requests and answers of /completions. Pure. */
import type { z } from "zod";
import type { Completion, CompletionRequest } from "../../../lib/chat/completion.ts";
import type { Infill, NativeAnswer, NativeCompletion } from "./schema.ts";

type Fields = z.input<typeof CompletionRequest>;

/** The native route has no limit by default. */
const limitOf = ({ n_predict, max_tokens }: Pick<NativeCompletion, "n_predict" | "max_tokens">) =>
  n_predict ?? max_tokens ?? -1;

export function fromNative({ n_predict, max_tokens, ...rest }: NativeCompletion): Fields {
  return { ...rest, max_tokens: limitOf({ n_predict, max_tokens }) };
}

export function fromInfill(request: Infill): Fields {
  const {
    input_prefix: prefix,
    input_suffix: suffix,
    input_extra: extra,
    prompt,
    n_predict,
    max_tokens,
    ...rest
  } = request;
  const files = (extra ?? []).map(({ filename, text }) => `${filename ?? ""}\n${text}\n`).join("");
  // an empty suffix would be no gap at all
  const gap = { prompt: `${files}${prefix}${prompt ?? ""}`, suffix: suffix || "\n" };
  return { ...rest, ...gap, max_tokens: limitOf({ n_predict, max_tokens }) };
}

export function toNative({ choices, model, usage, timings }: Completion): NativeAnswer {
  const [choice] = choices;
  const reason = choice?.finish_reason ?? null;
  const logprobs = choice?.logprobs;
  const probabilities = logprobs?.tokens.map((token, i) => ({
    token,
    logprob: logprobs.token_logprobs[i] ?? null,
    top_logprobs: Object.entries(logprobs.top_logprobs?.[i] ?? {}).map(([piece, logprob]) => ({
      token: piece,
      logprob,
    })),
  }));
  return {
    content: choice?.text ?? "",
    stop: reason !== null,
    model,
    ...(probabilities ? { completion_probabilities: probabilities } : {}),
    ...(reason === null ? {} : { stop_type: reason === "stop" ? "eos" : "limit", truncated: false }),
    ...(usage
      ? {
          tokens_evaluated: usage.prompt_tokens,
          tokens_predicted: usage.completion_tokens,
          tokens_cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
        }
      : {}),
    ...(timings ? { timings } : {}),
  };
}

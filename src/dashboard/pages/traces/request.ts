/** The request of a trace again: as a body of the API, as a command, as a row of a dataset. Pure. */
import { messagesOf } from "../../data/messages.ts";
import type { Trace } from "./types.ts";

export type Request = { path: string; body: Readonly<Record<string, unknown>> };

/** Undefined: the content was not kept, or it is no chat and no completion. `model`: the name of a deployment. */
export function requestOf({ source, input, parameters }: Trace, model: string): Request | undefined {
  if (input === null || source === "embedding") return undefined;
  const { stream: _, stream_options: __, ...settings } = parameters ?? {};
  if (source === "completion") return { path: "/v1/completions", body: { model, prompt: input, ...settings } };
  return { path: "/v1/chat/completions", body: { model, messages: chatOf(input), ...settings } };
}

/** Input as messages of a chat: a rollout may have a text. */
export const chatOf = (input: unknown): unknown[] =>
  typeof input === "string" ? [{ role: "user", content: input }] : Array.isArray(input) ? input : [input];

/** A command for a shell. The key is a variable, and a quote in a text is closed and escaped. */
export function curlOf({ path, body }: Request, origin: string): string {
  const json = JSON.stringify(body).replaceAll("'", "'\\''");
  return [
    `curl ${origin}${path}`,
    `-H "authorization: Bearer $VERK_API_KEY"`,
    `-H 'content-type: application/json'`,
    `-d '${json}'`,
  ].join(" \\\n  ");
}

export type RowFormat = "chat" | "completion" | "prompt";

/** `answer`: what the model should say, which may be corrected. */
export function rowOf({ source, input }: Trace, answer: string, format: RowFormat): Record<string, unknown> {
  const prompt = source === "completion" ? input : chatOf(input);
  const shortest = Array.isArray(prompt) && prompt.length === 1 ? (messagesOf(prompt)[0]?.text ?? "") : prompt;
  if (format === "chat") return { messages: [...chatOf(input), { role: "assistant", content: answer }] };
  return format === "prompt" ? { prompt: shortest, answer } : { prompt: shortest, completion: answer };
}

/** The text of an answer: of the first, if there are several. */
export const answerOf = (output: unknown): string => messagesOf(output)[0]?.text ?? "";

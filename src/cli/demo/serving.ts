/** Demo steps that serve a model: deploy, chat, stream, and serve again after a kill. */
import type { Client } from "../client.ts";

type Deployment = { id: string; status: string; error: string | null; load: { stage: string; progress: number } };
type Completion = { choices: { message: { content: string } }[]; usage: { completion_tokens: number } };
type Chunk = { choices: { delta: { content?: string } }[]; usage?: { completion_tokens: number } | null };

export const NAME = "demo";
const TIMEOUT_MS = 60_000;
const QUESTION = "Hello! Who are you?";

const bodyOf = (content: string, more: object = {}) => ({
  model: NAME,
  messages: [{ role: "user", content }],
  temperature: 0,
  max_tokens: 48,
  ...more,
});

/** Waits until the deployment serves and returns the milliseconds it took. */
export async function untilServing(client: Client, id: string, signal: AbortSignal): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const { body } = await client.call<Deployment>("GET", `/v1/deployments/${id}`, undefined, { signal });
    if (body.status === "serving") return performance.now() - startedAt;
    if (body.status === "failed") throw new Error(`the deployment failed: ${body.error}`);
    if (performance.now() - startedAt > TIMEOUT_MS)
      throw new Error(`the deployment is still ${body.status} (${body.load.stage}) after ${TIMEOUT_MS / 1000} s`);
    await Bun.sleep(10);
  }
}

export async function deployTiny(client: Client, signal: AbortSignal): Promise<{ id: string; detail: string }> {
  const settings = { model: "verk-tiny", name: NAME, parallel: 4, context_length: 512 };
  const { body } = await client.call<Deployment>("POST", "/v1/deployments", settings);
  const ms = await untilServing(client, body.id, signal);
  return { id: body.id, detail: `${body.id} serves after ${Math.round(ms)} ms` };
}

export async function chat(client: Client, id: string): Promise<string> {
  const { body } = await client.call<Completion>("POST", `/v1/deployments/${id}/chat/completions`, bodyOf(QUESTION));
  const text = body.choices[0]?.message.content.trim() ?? "";
  if (text === "") throw new Error("the answer is empty");
  return `"${QUESTION}" → "${text.replaceAll(/\s+/g, " ").slice(0, 90)}"`;
}

export async function streamed(client: Client, id: string, signal: AbortSignal): Promise<string> {
  const startedAt = performance.now();
  const body = bodyOf("Tell me a story.", { stream: true, stream_options: { include_usage: true } });
  let firstMs: number | undefined;
  let tokens = 0;
  for await (const { data } of client.stream(`/v1/deployments/${id}/chat/completions`, signal, { body })) {
    const chunk = data as Chunk;
    if (chunk.choices[0]?.delta.content) firstMs ??= performance.now() - startedAt;
    tokens = chunk.usage?.completion_tokens ?? tokens;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  if (firstMs === undefined || tokens === 0) throw new Error("the stream had no text");
  return `first text after ${Math.round(firstMs)} ms, ${tokens} tokens at ${Math.round(tokens / seconds)} per second`;
}

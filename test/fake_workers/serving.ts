/**
 * A replica without a model, for tests. The script file holds a list of lives, one for each start; the last applies to
 * all further starts. Every start adds a line to `<script>.starts`.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { pathOf } from "../../src/lib/net/request_target.ts";
import { type Host, runHosted } from "../../src/workers/host.ts";
import { type FromServing, ToServing, WorkerError } from "../../src/workers/protocol.ts";

export type Life = {
  /** Load only when this file exists. */
  gate?: string;
  /** Fails instead of loading. */
  fail?: "data" | "memory" | "crash";
  /** Number of words in an answer, and the pause between them. */
  words?: number;
  gapMs?: number;
  /** Complete answers wait until this file exists. */
  lasts?: string;
  /** Kills this process after this many words of one answer. */
  dieAfter?: number;
  /** Health checks are never answered. */
  sick?: boolean;
  /** Adapters whose path ends with this are rejected. */
  refuses?: string;
};

type ServingHost = Host<ToServing, FromServing>;

export const runFakeServing = (script: string) =>
  runHosted<ToServing, FromServing>(ToServing, async (host) => {
    let life: Life = {};
    for await (const message of host.messages) {
      if (message.type === "attach") host.send(attached(life, message));
      if (message.type === "combine") host.send({ type: "attached", name: message.name });
      if (message.type !== "load") continue;
      life = begin(script);
      host.send({ type: "loading", stage: "loading", progress: 0.4 });
      while (life.gate !== undefined && !existsSync(life.gate)) {
        if (host.stopping.aborted) return;
        await Bun.sleep(2);
      }
      if (life.fail === "crash") {
        console.error("GGML_ASSERT(ne0 > 0) failed");
        process.kill(process.pid, "SIGABRT");
      }
      if (life.fail === "data" || life.fail === "memory")
        throw new WorkerError(life.fail, `asked to fail: ${life.fail}`);
      const living = life;
      Bun.serve({ unix: host.socketPath, fetch: (request) => handle(host, living, request) });
      const { context_length, parallel } = message;
      host.send({ type: "loaded", context_length, parallel, memory_bytes: 1_000_000, load_ms: 1, device: "fake" });
    }
  });

const attached = ({ refuses = "none" }: Life, { name, path }: { name: string; path: string }): FromServing =>
  path.endsWith(refuses)
    ? { type: "unattached", name, error: `${path} is not an adapter of this model` }
    : { type: "attached", name };

function begin(script: string): Life {
  appendFileSync(`${script}.starts`, `${process.pid}\n`);
  const starts = readFileSync(`${script}.starts`, "utf8").trim().split("\n").length;
  const lives = JSON.parse(readFileSync(script, "utf8")) as Life[];
  return lives[Math.min(starts, lives.length) - 1] ?? {};
}

async function handle(host: ServingHost, life: Life, request: Request): Promise<Response> {
  if (pathOf(request) === "/health")
    return life.sick ? new Promise<Response>(() => {}) : Response.json({ decoded: true, decode_ms: 1, running: null });
  const { stream, model } = (await request.json()) as { stream?: boolean; model: string };
  const id = request.headers.get("x-verk-request") ?? "";
  const words = life.words ?? 3;
  let said = 0;
  const told = (status: number) => {
    const counts = { prompt_tokens: 5, cached_tokens: 0, completion_tokens: said };
    const timings = { template_ms: 1, prompt_ms: 2, decode_ms: 3 };
    host.send({ type: "served", request: id, status, ...counts, error: null, timings });
  };
  const speak = async () => {
    if (life.gapMs) await Bun.sleep(life.gapMs);
    if (life.dieAfter === said) process.kill(process.pid, "SIGKILL");
    return `${request.headers.get("x-verk-adapter") === null ? "w" : "a"}${said++} `;
  };
  if (!stream) {
    let content = "";
    while (said < words || (life.lasts !== undefined && !existsSync(life.lasts))) content += await speak();
    told(200);
    return Response.json(completion(model, content, said));
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (said < words) {
        const choice = { index: 0, delta: { content: await speak() }, finish_reason: null };
        const chunk = { id: "x", object: "chat.completion.chunk", created: 1, model, choices: [choice] };
        return controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(chunk)}\n\n`));
      }
      controller.enqueue(new TextEncoder().encode("data: [DONE]\n\n"));
      told(200);
      controller.close();
    },
    cancel: () => told(499),
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

const completion = (model: string, content: string, tokens: number) => ({
  id: "chatcmpl-fake",
  object: "chat.completion",
  created: 1,
  model,
  choices: [
    { index: 0, message: { role: "assistant", content, refusal: null }, logprobs: null, finish_reason: "stop" },
  ],
  usage: {
    prompt_tokens: 5,
    completion_tokens: tokens,
    total_tokens: 5 + tokens,
    prompt_tokens_details: { cached_tokens: 0 },
  },
});

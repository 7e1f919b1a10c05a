import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Host, liveOf, Replica } from "../src/resources/serving/deployments/fleet/fleet.ts";
import * as moves from "../src/resources/serving/deployments/fleet/moves.ts";
import { refOf } from "../src/resources/serving/deployments/switch.ts";
import type { DeploymentRow } from "../src/resources/serving/deployments/table.ts";
import type { TestApp } from "./harness.ts";

const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, prompt_tokens_details: { cached_tokens: 0 } };
const head = { id: "x-1", created: 1, model: "d" };
const message = { role: "assistant", content: "hello", refusal: null };

/** One canned answer for each path of a worker. */
const ANSWERS: Record<string, object> = {
  "/chat/completions": {
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage: USAGE,
  },
  "/completions": {
    ...head,
    object: "text_completion",
    choices: [{ index: 0, text: "hello", logprobs: null, finish_reason: "stop" }],
    usage: USAGE,
  },
  "/embeddings": {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [1, 0] }],
    model: "d",
    usage: { prompt_tokens: 1, total_tokens: 1 },
  },
  "/rerank": { model: "d", scores: [1], usage: { prompt_tokens: 1, total_tokens: 1 } },
  "/tokenize": { tokens: [1] },
  "/detokenize": { content: "hi" },
  "/apply-template": { prompt: "hi", input_tokens: 1, tokens: [1] },
  "/props": {
    context_length: 8,
    parallel: 1,
    active: 0,
    bos_token: "",
    eos_token: "",
    chat_template: "",
    architecture: "llama",
    vocab_size: 1,
  },
};

/** `answer`: replaces the canned answer. `parallel`: the slots of the replica. */
type Report = { request: string };
type Pretence = {
  parallel?: number;
  answer?: (path: string, body: never) => object | Promise<object>;
  /** Makes the whole interface of a worker. `report` must be called for each request. */
  worker?: (report: (message: Report) => void) => (request: Request) => Promise<Response>;
};

/** The answer of a chat completion with this text. */
export const chatAnswer = (text: string) => ({
  ...ANSWERS["/chat/completions"],
  choices: [{ index: 0, message: { ...message, content: text }, logprobs: null, finish_reason: "stop" }],
});

/** Makes a deployment serve without a process, for tests of the routes alone. */
export function pretendServing(app: TestApp, id: string, { parallel = 1, answer, worker: make }: Pretence = {}) {
  const socketPath = join(app.dir, "run", `${id.slice(-12)}.sock`);
  rmSync(socketPath, { force: true });
  const usage = { status: 200, prompt_tokens: 1, cached_tokens: 0, completion_tokens: 1, error: null };
  const handle = make?.((message) => host.pendingUsage.get(message.request)?.(message as never));
  Bun.serve({
    unix: socketPath,
    fetch: async (request) => {
      if (handle) return handle(request);
      const of = request.headers.get("x-verk-request") ?? "";
      const { pathname } = new URL(request.url);
      const answered = answer ? await answer(pathname, (await request.json()) as never) : (ANSWERS[pathname] ?? {});
      host.pendingUsage.get(of)?.({ type: "served", request: of, ...usage });
      return Response.json(answered);
    },
  }).unref();
  moves.move(app.ctx, id, "place");
  moves.serve(app.ctx, id);
  const now = app.ctx.clock.now();
  const worker = { id, kind: "pretended", pid: 0, socketPath, send: () => true } as never; // no other member is used
  const live = liveOf(app.ctx, id);
  const state = { bytes: 0, parallel, loaded: true, canSee: false, ending: false };
  const host: Host = {
    key: id,
    worker,
    cards: [],
    users: new Map(),
    pendingUsage: new Map(),
    loras: new Map(),
    ...state,
  };
  const model = refOf(moves.current(app.ctx.db, id) as DeploymentRow);
  const replica = new Replica({ holder: `${id}/1`, host, model, adapter: null, adapterBytes: 0, loadUntil: now, now });
  replica.becomeReady(app.ctx.clock.steady());
  host.users.set(replica, live);
  live.replicas.add(replica);
}

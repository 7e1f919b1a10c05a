import { rmSync } from "node:fs";
import { join } from "node:path";
import { type Host, liveOf, type Replica } from "../src/resources/deployments/fleet/fleet.ts";
import * as moves from "../src/resources/deployments/fleet/moves.ts";
import type { TestApp } from "./harness.ts";

const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, prompt_tokens_details: { cached_tokens: 0 } };
const head = { id: "x-1", created: 1, model: "d" };
const message = { role: "assistant", content: "hello", refusal: null };

/** One canned answer for each path of a worker. */
const ANSWERS: Record<string, object> = {
  "/chat/completions": {
    ...head,
    object: "chat.completion",
    choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
    usage,
  },
  "/completions": {
    ...head,
    object: "text_completion",
    choices: [{ index: 0, text: "hello", logprobs: null, finish_reason: "stop" }],
    usage,
  },
  "/embeddings": {
    object: "list",
    data: [{ object: "embedding", index: 0, embedding: [1, 0] }],
    model: "d",
    usage: { prompt_tokens: 1, total_tokens: 1 },
  },
};

/** Makes a deployment serve without a process: for tests that only look at the routes. */
export function pretendServing(app: TestApp, id: string) {
  const socketPath = join(app.dir, "run", `${id.slice(-12)}.sock`);
  rmSync(socketPath, { force: true });
  Bun.serve({
    unix: socketPath,
    fetch: (request) => Response.json(ANSWERS[new URL(request.url).pathname] ?? {}),
  }).unref();
  moves.move(app.ctx, id, "place");
  moves.serve(app.ctx, id);
  const now = app.ctx.clock.now();
  const worker = { id, kind: "pretended", pid: 0, socketPath, send: () => true } as never; // nothing else is asked of it
  const live = liveOf(app.ctx, id);
  const state = { bytes: 0, parallel: 1, loaded: true, ending: false };
  const host: Host = { key: id, worker, cards: [], users: new Map(), untold: new Map(), ...state };
  const replica: Replica = {
    holder: `${id}/1`,
    host,
    adapter: null,
    adapterBytes: 0,
    state: "ready",
    stage: "ready",
    progress: 1,
    parallel: 1,
    inflight: 0,
    loadUntil: now,
    provedAt: now,
    probing: false,
  };
  host.users.set(replica, live);
  live.replicas.add(replica);
}

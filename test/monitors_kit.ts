import { expect } from "bun:test";
import { newId } from "../src/lib/ids.ts";
import { write } from "../src/platform/db/db.ts";
import { deploymentRequests } from "../src/resources/serving/deployments/table.ts";
import { evaluateDue } from "../src/resources/watching/monitors/evaluate.ts";
import { fakeClock, type Options, type TestApp } from "./harness.ts";

export const PATH = "/v1/monitors";
export const BALANCE = { name: "m", metric: "balance", thresholds: { alert: 1 } };
export const never = new AbortController().signal;

/** An application with a clock that a test moves, and shortcuts for monitors. */
export function monitoring(open: (options?: Options) => TestApp, options: Options = {}) {
  const clock = fakeClock();
  const app = open({ clock, ...options });
  const create = async (json: object) => {
    const { status, body } = await app.call("POST", PATH, { ...BALANCE, ...json });
    expect({ status, error: body.error ?? null }).toEqual({ status: 201, error: null });
    return body;
  };
  const get = async (id: string) => (await app.call("GET", `${PATH}/${id}`)).body;
  /** The next evaluation of every monitor. */
  const evaluate = async () => {
    clock.advance(30_000);
    await evaluateDue(app.ctx, never);
  };
  /** A new monitor, evaluated without a change. */
  const tested = async (json: object) => {
    const { id } = await create({ name: crypto.randomUUID(), ...json });
    return (await app.call("POST", `${PATH}/${id}/test`)).body;
  };
  return { app, clock, create, get, evaluate, tested };
}

export async function deployment(app: TestApp, name = "served"): Promise<string> {
  return (await app.call("POST", "/v1/deployments", { model: "test/model", name })).body.id;
}

type Request = { latencyMs?: number; statusCode?: number; tokens?: number; agoMs?: number };
/** Records requests as if a deployment had answered them. */
export function serve(app: TestApp, deploymentId: string, requests: readonly Request[]) {
  const now = app.ctx.clock.now();
  write(app.ctx.db, (tx) => {
    for (const { latencyMs = 10, statusCode = 200, tokens = 0, agoMs = 0 } of requests)
      tx.insert(deploymentRequests)
        .values({
          id: newId("req", now),
          workspaceId: app.workspaceA,
          deploymentId,
          latencyMs,
          statusCode,
          promptTokens: tokens,
          completionTokens: 0,
          errorMessage: null,
          createdAt: now - agoMs,
        })
        .run();
  });
}

/** Rollouts on a test application whose deployment `d` follows a script: the worker's routes over a fake engine. */
import type { Server } from "bun";
import { createRequestHandler } from "../src/workers/serving/http.ts";
import { toServed } from "../src/workers/serving/request.ts";
import { type Options, type TestApp, testApp } from "./harness.ts";
import { CHATML } from "./models.ts";
import { pretendServing } from "./pretend_replica.ts";
import { type FakeEngine, fakeEngine, type Step } from "./serving/fake_engine.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
export type Json = any;

export type RolloutsKit = {
  app: TestApp;
  engine: FakeEngine;
  /** The address of the application over HTTP, for clients. */
  url: string;
  /** Each call takes the next answer; the last one repeats. */
  play: (...answers: (readonly Step[])[]) => void;
  open: (fields?: object) => Promise<Json>;
  turns: (id: string) => Promise<Json[]>;
  close: () => Promise<void>;
};

export async function rolloutsKit(options: Options = {}, chatTemplate = CHATML): Promise<RolloutsKit> {
  const app = testApp(options);
  let answers: (readonly Step[])[] = [["Hello"]];
  const engine = fakeEngine(() => (answers.length > 1 ? answers.shift() : answers[0]) ?? [], { chatTemplate });
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d", cost_per_hour: null });
  pretendServing(app, body.id, {
    parallel: 8,
    worker: (report) => createRequestHandler(toServed(engine, "mdl_x"), report, new AbortController().signal).fetch,
  });
  const server: Server<undefined> = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => app.handle(request),
  });
  return {
    app,
    engine,
    url: server.url.href.replace(/\/$/, ""),
    play: (...next) => {
      answers = next;
    },
    async open(fields = {}) {
      const { status, body: made } = await app.call("POST", "/v1/rollouts", { model: "d", ...fields });
      if (status !== 201) throw new Error(JSON.stringify(made));
      return { ...made, base_url: made.base_url.replace("http://localhost", server.url.href.replace(/\/$/, "")) };
    },
    turns: async (id) => (await app.call("GET", `/v1/rollouts/${id}/turns?limit=100`)).body.data,
    async close() {
      await server.stop(true);
      await app.close();
      app.remove();
    },
  };
}

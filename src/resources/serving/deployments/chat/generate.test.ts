import { afterEach, expect, test } from "bun:test";
import { manyApps, until } from "../../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../../test/pretend_replica.ts";
import { liveOf } from "../fleet/fleet.ts";
import { embed, generate } from "./generate.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const never = new AbortController().signal;
type Chat = { messages: { content: string }[] };

/** A deployment whose requests are answered when the test lets them go. */
async function serving(parallel: number) {
  const app = open({ parts: ["models"] });
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  const begun: string[] = [];
  const gates = new Map<string, () => void>();
  pretendServing(app, body.id, {
    parallel,
    async answer(_path, { messages }: Chat) {
      const text = messages[0]?.content ?? "";
      begun.push(text);
      await new Promise<void>((done) => gates.set(text, done));
      return chatAnswer(`re: ${text}`);
    },
  });
  const messages = (content: string) => [{ role: "user" as const, content }];
  const ask = (content: string, { background = true, signal = never } = {}) =>
    generate(app.ctx, {
      workspaceId: app.workspaceA,
      deploymentId: body.id,
      messages: messages(content),
      signal,
      background,
    });
  const live = (content: string) =>
    app.call("POST", "/v1/chat/completions", { model: "d", messages: messages(content) });
  const letGo = async (text: string) => {
    await until(`${text} to begin`, () => gates.has(text));
    gates.get(text)?.();
  };
  return { app, id: body.id as string, begun, ask, live, letGo, state: () => liveOf(app.ctx, body.id) };
}

test("a completion without HTTP has its text and usage, and is recorded as a request", async () => {
  const { app, id, ask, letGo } = await serving(1);
  const answer = ask("hi");
  await letGo("hi");
  expect(await answer).toMatchObject({ text: "re: hi", finishReason: "stop", promptTokens: 1, completionTokens: 1 });
  const { requestId } = await answer;
  await until("its record", async () => {
    const { body } = await app.call("GET", `/v1/deployments/${id}/requests`);
    return body.data.some((each: { id: string; status_code: number }) => each.id === requestId);
  });
});

test("background requests leave a slot for live ones, and wait while live ones need the slots", async () => {
  const { begun, ask, live, letGo, state } = await serving(3);
  const first = ["b1", "b2", "b3"].map((text) => ask(text));
  await until("two to begin", () => begun.length === 2);
  expect(state().background.waiting.size).toBe(1);
  const mine = live("l1"); // the third slot is free for it
  await until("the live one to begin", () => begun.includes("l1"));
  await letGo("b1"); // b2 and l1 still run: no room for b3
  await first[0];
  expect(begun).not.toContain("b3");
  await letGo("l1");
  await mine;
  await letGo("b3");
  await letGo("b2");
  await Promise.all(first);
  expect([state().background.admitted, state().flights.size]).toEqual([0, 0]);
});

test("with a single slot, a background request runs alone", async () => {
  const { begun, ask, live, letGo } = await serving(1);
  const mine = live("l1");
  await until("the live one to begin", () => begun.includes("l1"));
  const answer = ask("b1");
  await letGo("l1");
  await mine;
  await letGo("b1");
  expect((await answer).text).toBe("re: b1");
});

test("an abort ends a wait and a request, and frees the turn", async () => {
  const { begun, ask, state } = await serving(1);
  const [running, waiting] = [new AbortController(), new AbortController()];
  const first = ask("b1", { signal: running.signal });
  await until("it to begin", () => begun.includes("b1"));
  const second = ask("b2", { signal: waiting.signal });
  await until("it to wait", () => state().background.waiting.size === 1);
  waiting.abort(new Error("enough"));
  expect(second).rejects.toThrow("enough");
  running.abort(new Error("over"));
  expect(first).rejects.toThrow("over");
  await Promise.allSettled([first, second]);
  expect([state().background.admitted, state().background.waiting.size]).toEqual([0, 0]);
});

test("a deployment that is stopped, or of another workspace, is the error that a client reads", async () => {
  const { app, id, ask } = await serving(1);
  const request = { workspaceId: app.workspaceB, deploymentId: id, input: ["a"], signal: never, background: true };
  expect(embed(app.ctx, request)).rejects.toMatchObject({ code: "resource_not_found" });
  await app.call("POST", `/v1/deployments/${id}/stop`);
  expect(ask("hi")).rejects.toMatchObject({ code: "unsupported_state" });
});

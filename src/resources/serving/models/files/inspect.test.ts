import { afterEach, expect, jest, test } from "bun:test";
import type { Ctx } from "../../../../context.ts";
import type { FromInspector, ToInspector } from "../../../../workers/protocol_inspector.ts";
import { ModelsState } from "../live.ts";
import { inspect, placeBuiltin } from "./inspect.ts";

afterEach(() => jest.useRealTimers());

type Spawned = {
  asked: ToInspector[];
  stops: number;
  say: (message: FromInspector) => void;
  end: () => void;
};

/** Children that answer when the test says so, and end some time after they were asked to. */
function fakeProcesses() {
  const spawned: Spawned[] = [];
  const spawn = (options: { onMessage: Spawned["say"]; onExit: (exit: { message: string }) => void }) => {
    const child: Spawned = {
      asked: [],
      stops: 0,
      say: options.onMessage,
      end: () => options.onExit({ message: "stopped" }),
    };
    spawned.push(child);
    return { send: (message: ToInspector) => child.asked.push(message), stop: () => child.stops++ };
  };
  return { spawned, ctx: { supervisor: { spawn }, state: { models: new ModelsState() } } as unknown as Ctx };
}

const refused = (path: string): FromInspector => ({ type: "refused", path, error: `no: ${path}` });

test("a file that comes while the idle process is ending is looked at by a new one", async () => {
  jest.useFakeTimers();
  const { ctx, spawned } = fakeProcesses();
  const first = inspect(ctx, "a", { workspaceId: "", hash: false });
  spawned[0]?.say(refused("a"));
  expect(await first).toEqual({ ok: false, error: "no: a", broken: false });
  jest.advanceTimersByTime(5_000);
  expect(spawned[0]?.stops).toBe(1);

  const second = inspect(ctx, "b", { workspaceId: "", hash: false });
  spawned[0]?.end();
  expect(spawned[0]?.asked).toHaveLength(1);
  expect(spawned[1]?.asked).toEqual([{ type: "inspect", path: "b", hash: false }]);
  spawned[1]?.say(refused("b"));
  expect(await second).toEqual({ ok: false, error: "no: b", broken: false });
});

test("the built-in model is copied by the process that looks at files, and a refusal is told with its reason", async () => {
  const { ctx, spawned } = fakeProcesses();
  const placing = placeBuiltin(ctx, "p", "hash");
  expect(spawned[0]?.asked).toEqual([{ type: "place", path: "p", sha256: "hash" }]);
  spawned[0]?.say({ type: "placed", path: "p" });
  await placing;

  const full = placeBuiltin(ctx, "p", "hash");
  spawned[0]?.say({ type: "refused", path: "p", error: "the disk is full" });
  await expect(full).rejects.toThrow("could not be copied to p: the disk is full");
});

import { expect, test } from "bun:test";
import type { Entrypoint, Sample } from "../../src/lib/rewards/contract.ts";
import { createFrames, encodeFrame } from "../../src/lib/rewards/frames.ts";
import { openRewardProcess } from "../../src/sandbox/reward/process.ts";
import type { SpawnedReward } from "../../src/sandbox/reward/spawn.ts";

/** A fake process: `script` answers each request with frames, which may be lies. */
type Request = { op: string; nonce: string };
function fakeSpawned(
  script: (request: Request, say: (frame: unknown) => void) => void,
): SpawnedReward & { killed: () => boolean } {
  const frames = createFrames(64 << 20);
  const exited = Promise.withResolvers<null>();
  let killed = false;
  let send: (chunk: Uint8Array) => void = () => {};
  let end = () => {};
  const output = new ReadableStream<Uint8Array>({
    start(controller) {
      send = (chunk) => killed || controller.enqueue(chunk);
      end = () => controller.close();
    },
  });
  const say = (frame: unknown) => send(frame instanceof Uint8Array ? frame : encodeFrame(frame));
  say({ op: "ready", layers: ["language"], start_ms: 1 });
  return {
    pid: 0x7fff_ffff,
    jailed: true, // its memory is not watched
    write: (frame) => {
      for (const request of frames.push(frame)) script(request as Request, say);
    },
    output: output as unknown as AsyncIterable<Uint8Array>,
    kill() {
      if (killed) return;
      killed = true;
      exited.resolve(null);
      try {
        end();
      } catch {
        // the reader has left
      }
    },
    exited: exited.promise,
    lastOutput: () => "",
    killed: () => killed,
  };
}

const entry: Entrypoint = { name: "reward", signature: "reward(completions)", form: "batch", is_async: false, line: 1 };
const samples: Sample[] = [0, 1].map(() => ({ prompt: "p", completion: "c", row: {} }));
const limits = () => ({ sampleMs: 60_000, wholeMs: 60_000, until: performance.now() + 60_000 });
const none = { stdout: "", stdout_bytes: 0 };
const outcome = (value: number) => ({ value, fault: null, ms: 1 });
const good = ({ nonce }: Request, say: (frame: unknown) => void) => {
  say({ op: "outcomes", nonce, from: 0, outcomes: [outcome(1), outcome(2)] });
  say({ op: "done", nonce, ...none });
};

test("an honest process is trusted", async () => {
  const process = await openRewardProcess(fakeSpawned(good), 1e9);
  const called = await process.call(entry, samples, limits());
  expect(called.end).toBeNull();
  expect(called.outcomes.map(({ value }) => value)).toEqual([1, 2]);
  await process.close();
});

const LIES: [name: string, script: Parameters<typeof fakeSpawned>[0]][] = [
  ["a nonce of its own", (_, say) => say({ op: "outcomes", nonce: "0".repeat(32), from: 0, outcomes: [outcome(1)] })],
  ["no nonce", (_, say) => say({ op: "done", ...none })],
  [
    "an infinite value",
    ({ nonce }, say) =>
      say(
        Buffer.from(
          frame(`{"op":"outcomes","nonce":"${nonce}","from":0,"outcomes":[{"value":1e999,"fault":null,"ms":1}]}`),
        ),
      ),
  ],
  [
    "a text for a value",
    ({ nonce }, say) => say({ op: "outcomes", nonce, from: 0, outcomes: [{ value: "1", fault: null, ms: 1 }] }),
  ],
  [
    "more outcomes than samples",
    ({ nonce }, say) => say({ op: "outcomes", nonce, from: 0, outcomes: [1, 2, 3].map(outcome) }),
  ],
  ["a gap", ({ nonce }, say) => say({ op: "outcomes", nonce, from: 1, outcomes: [outcome(1)] })],
  ["done before all outcomes", ({ nonce }, say) => say({ op: "done", nonce, ...none })],
  ["ready again", (_, say) => say({ op: "ready", layers: ["language"], start_ms: 1 })],
  [
    "an answer to another kind of request",
    ({ nonce }, say) => say({ op: "loaded", nonce, entrypoints: [entry], environments: [], ...none }),
  ],
  ["an unknown field", ({ nonce }, say) => say({ op: "done", nonce, ...none, extra: true })],
  [
    "more prints than allowed",
    ({ nonce }, say) => say({ op: "done", nonce, stdout: "x".repeat(70_000), stdout_bytes: 70_000 }),
  ],
  ["no JSON", (_, say) => say(frame("nonsense"))],
  ["a frame of two megabytes", (_, say) => say(Uint8Array.of(0, 0, 32, 0))],
];
function frame(body: string): Buffer {
  const bytes = Buffer.from(body);
  const header = Buffer.alloc(4);
  header.writeUInt32LE(bytes.byteLength);
  return Buffer.concat([header, bytes]);
}

test.each(LIES)("%s ends the process", async (_name, script) => {
  const spawned = fakeSpawned(script);
  const process = await openRewardProcess(spawned, 1e9);
  const called = await process.call(entry, samples, limits());
  expect(called.end?.kind).toBe("crashed");
  expect(spawned.killed()).toBe(true);
});

test("an answer of an earlier request is not accepted for the next one", async () => {
  const said: unknown[] = [];
  const spawned = fakeSpawned((request, say) => {
    if (said.length > 0) for (const each of said) say(each);
    else
      good(request, (each) => {
        said.push(each);
        say(each);
      });
  });
  const process = await openRewardProcess(spawned, 1e9);
  expect((await process.call(entry, samples, limits())).end).toBeNull();
  expect((await process.call(entry, samples, limits())).end?.message).toContain("without a request");
});

test("an answer without a request ends the process", async () => {
  let speak: (frame: unknown) => void = () => {};
  const spawned = fakeSpawned((request, say) => {
    speak = say;
    good(request, say);
  });
  const process = await openRewardProcess(spawned, 1e9);
  await process.call(entry, samples, limits());
  speak({ op: "done", nonce: "0".repeat(32), ...none });
  expect((await process.ended).kind).toBe("crashed");
});

test("a silent process is ended at its deadline", async () => {
  const process = await openRewardProcess(
    fakeSpawned(() => {}),
    1e9,
  );
  const called = await process.call(entry, samples, { ...limits(), wholeMs: 20 });
  expect(called.end).toEqual({ kind: "timeout", message: "took longer than 20 ms for the batch" });
});

test("answers before the deadline count", async () => {
  const script = ({ nonce }: Request, say: (frame: unknown) => void) =>
    say({ op: "outcomes", nonce, from: 0, outcomes: [outcome(1)] });
  const process = await openRewardProcess(fakeSpawned(script), 1e9);
  const called = await process.call({ ...entry, form: "sample" }, samples, { ...limits(), sampleMs: 500 });
  expect(called.outcomes).toEqual([outcome(1)]);
  expect(called.end).toEqual({ kind: "timeout", message: "took longer than 500 ms for one sample" });
});

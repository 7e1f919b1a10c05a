/** A server whose hub is a fake, with a small and a large model file to download. */
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../src/platform/clock.ts";
import { pullAll } from "../src/resources/models/hub/pull.ts";
import { type FakeRepo, startFakeHub } from "./fake_hub.ts";
import { type TestApp, tempDir, testApp } from "./harness.ts";
import { makeModel } from "./models.ts";

/** Sleeps take a hundredth of their time. */
export const hurried = { ...systemClock, sleep: (ms: number, s?: AbortSignal) => systemClock.sleep(ms / 100, s) };
export const stops: (() => unknown)[] = [];
export async function stopAll() {
  for (const stop of stops.splice(0).reverse()) await stop();
}

const dir = tempDir();
const read = (path: string) => new Uint8Array(readFileSync(path));
export const small = read(makeModel(dir, { arch: "llama", type: "F16" }));
/** A file that is downloaded in several ranges. */
export const large = read(
  makeModel(dir, { arch: "llama", type: "F32", width: 256, heads: 4, ff: 1024, layers: 4, vocabSize: 4096 }),
);
rmSync(dir, { recursive: true });

export function hubOf(repos: Record<string, FakeRepo>) {
  const hub = startFakeHub(repos);
  stops.push(hub.stop);
  return hub;
}
/** With `directory`, the server opens that data directory again, as after a restart. */
export function appAt(url: string, flags: Record<string, unknown> = {}, directory?: string): TestApp {
  // On the hurried clock a busy machine would make a worker seem silent.
  const neverSilent = { "workers.silence_ms": 86_400_000 };
  const settings = { "hub.endpoint": url, "network.allow": ["127.0.0.1", "localhost"], ...neverSilent, ...flags };
  const app = testApp({ flags: settings, clock: hurried, ...(directory ? { dir: directory } : {}) });
  stops.push(() => app.close().then(app.remove));
  return app;
}
export const pull = (app: TestApp, signal = new AbortController().signal) => pullAll(app.ctx, signal);
export const repo = (extra: Partial<FakeRepo> = {}) => ({
  "acme/tiny": { files: { "tiny-Q4_K_M.gguf": small }, ...extra },
});
export const parts = (app: TestApp) => readdirSync(join(app.dir, "models/.downloads"));

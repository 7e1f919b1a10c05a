/** The application with real serving workers, some of which have a fault (engine/thread/fault.ts). */
import { copyFileSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Supervisor } from "../../src/platform/workers/supervisor.ts";
import { liveOf } from "../../src/resources/serving/deployments/fleet/fleet.ts";
import { register } from "../../src/resources/serving/models/files/folder.ts";
import { tempDir, testApp, until } from "../harness.ts";

export const TINY = resolve(import.meta.dir, "../../models/verk-tiny/verk-tiny.gguf");
const HEALTH_MS = { "serving.health_interval_ms": 100, "serving.health_timeout_ms": 1_000 };

type Options = {
  /** The fault of each worker in the order of their starts; those after the last have none. */
  faults?: readonly string[];
  file?: string;
  flags?: Record<string, unknown>;
};

export async function faultyServing({ faults = [], file = TINY, flags = {} }: Options = {}) {
  const dir = tempDir();
  let starts = 0;
  const supervise = (real: Supervisor): Supervisor => ({
    ...real,
    spawn(options) {
      if (options.kind !== "serving") return real.spawn(options);
      const fault = faults[starts++] ?? "";
      return real.spawn({ ...options, args: [fault] });
    },
  });
  mkdirSync(join(dir, "models"), { recursive: true });
  copyFileSync(file, join(dir, "models", "m.gguf"));
  const app = testApp({
    dir,
    flags: { "serving.restart_backoff_ms": 1, "serving.threads": 1, "serving.parallel": 2, ...HEALTH_MS, ...flags },
    parts: ["deployments"],
    loops: ["deployments.reconcile"],
    supervise,
  });
  await register(app.ctx, { name: "m", path: "models/m.gguf" });
  const { body } = await app.call("POST", "/v1/deployments", { model: "m", name: "d" });
  const id = body.id as string;
  const chat = (content: string, more: object = {}) =>
    app.call("POST", `/v1/deployments/${id}/chat/completions`, {
      model: "d",
      messages: [{ role: "user", content }],
      max_tokens: 1,
      temperature: 0,
      ...more,
    });
  return Object.assign(app, {
    id,
    chat,
    starts: () => starts,
    replica: () => [...liveOf(app.ctx, id).replicas][0],
    reaches: (status: string) =>
      until(`the deployment to be ${status}`, async () => {
        const { body } = await app.call("GET", `/v1/deployments/${id}`);
        return body.status === status ? body : undefined;
      }),
    records: async (count: number) =>
      until(`${count} records`, async () => {
        const { data } = (await app.call("GET", `/v1/deployments/${id}/requests`)).body;
        return data.length === count ? data : undefined;
      }),
  });
}

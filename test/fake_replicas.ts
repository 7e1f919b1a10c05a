import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { PartName } from "../src/parts.ts";
import type { Clock } from "../src/platform/clock.ts";
import { startsOf } from "./fake_starts.ts";
import { withFakes } from "./fake_workers/program.ts";
import type { Life } from "./fake_workers/serving.ts";
import { type TestApp, tempDir, testApp, until } from "./harness.ts";
import { makeModel } from "./models.ts";
import { registerRandom } from "./registered.ts";

type Options = {
  dir?: string;
  clock?: Clock;
  flags?: Record<string, unknown>;
  lives?: readonly Life[];
  parts?: readonly PartName[];
};

/** The application with a running reconciler. Replicas follow `lives` instead of loading a model. */
export async function deploying({ dir = tempDir(), clock, flags = {}, lives = [{}], parts = [] }: Options = {}) {
  const script = join(dir, "replicas.json");
  writeFileSync(script, JSON.stringify(lives));
  const fake = withFakes("serving", script);
  const file = join(dir, "models", "random.gguf");
  if (!existsSync(file)) {
    mkdirSync(dirname(file), { recursive: true });
    renameSync(makeModel(dirname(file), { arch: "llama", type: "F32" }), file);
  }
  const app = testApp({
    dir,
    flags: { "serving.restart_backoff_ms": 1, "workers.silence_ms": 86_400_000, ...flags },
    parts: ["deployments", ...parts],
    loops: ["deployments.reconcile"],
    supervise: fake,
    ...(clock ? { clock } : {}),
  });
  await registerRandom(app.ctx);
  return Object.assign(app, {
    starts: () => startsOf(script),
    relive: (next: readonly Life[]) => writeFileSync(script, JSON.stringify(next)),
    deploy: async (json: Record<string, unknown> = {}) => {
      const { body, status } = await app.call("POST", "/v1/deployments", { model: "random", name: "d", ...json });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body.id as string;
    },
    /** The answer of the API once the deployment has this status. */
    reaches: (id: string, status: string) =>
      until(`${id} to be ${status}`, async () => {
        const { body } = await app.call("GET", `/v1/deployments/${id}`);
        return body.status === status ? body : undefined;
      }),
  });
}

export type DeployingApp = Awaited<ReturnType<typeof deploying>>;

/** For tests that open several: `const { open, closeAll } = manyDeploying(); afterEach(closeAll)`. */
export function manyDeploying() {
  const apps: DeployingApp[] = [];
  return {
    /** A test that closes an app itself removes it from here. */
    apps,
    async open(...args: Parameters<typeof deploying>): Promise<DeployingApp> {
      const made = await deploying(...args);
      apps.push(made);
      return made;
    },
    async closeAll() {
      for (const each of apps.splice(0)) await each.close().then(each.remove);
    },
  };
}

/** Types of the events of one subject, oldest first. */
export const eventsOf = (app: TestApp, id: string): string[] =>
  app.ctx.db.$client
    .query<{ type: string }, [string]>("SELECT type FROM events WHERE subject_id = ? ORDER BY seq")
    .all(id)
    .map((row) => row.type);

/**
 * One life of a server with a cloud, in a process that clouds_kill.test.ts kills. Its time runs faster than the real
 * one. Arguments: data directory, file of the cloud, epoch ms when the fast time began, `work` or `drain`.
 */

import type { Clock } from "../../src/platform/clock.ts";
import { durable } from "../../src/platform/db/db.ts";
import { armFailpoint } from "../../src/platform/failpoint.ts";
import { readLeases } from "../../src/platform/providers/leases.ts";
import { liveMachines } from "../../src/resources/machines/clouds/moves.ts";
import { begin, reconcile } from "../../src/resources/machines/clouds/reconcile.ts";
import { waitForMachine } from "../../src/resources/machines/clouds/service.ts";
import { keepRegions } from "../../src/resources/machines/regions/clouds.ts";
import type { RegionProvider } from "../../src/resources/machines/regions/live.ts";
import { named } from "../../src/resources/machines/regions/service.ts";
import { INFO } from "../fake_node.ts";
import { testApp } from "../harness.ts";

export const FASTER = 200;
const TURN_MS = 10;
/** Work comes and goes in turns of this long. */
const PHASE_MS = 700;

const [dir = "", file = "", base = "", mode = ""] = Bun.argv.slice(2);
const fast = () => Number(base) + (Date.now() - Number(base)) * FASTER;
const clock: Clock = {
  now: fast,
  steady: fast,
  sleep: (ms, signal) =>
    new Promise((done) => {
      const timer = setTimeout(done, ms / FASTER);
      const wake = () => {
        clearTimeout(timer);
        done();
      };
      signal?.addEventListener("abort", wake, { once: true });
    }),
};

const app = testApp({ dir, clock, flags: { "clouds.files": [file], "billing.initial_credit_usd": 1e9 } });
const { ctx } = app;
ctx.state.regions.executable = "/bin/true";
const provider = { info: async () => INFO } as RegionProvider;
ctx.state.regions.providers.get = () => provider;
await begin(ctx);
keepRegions(ctx);
const region = named(ctx, app.workspaceA, "lab");
if (!region) throw new Error("the cloud has no region");
armFailpoint(process.env["VERK_FAILPOINT"]);
console.log("ready");

const began = Date.now();
for (;;) {
  const hasWork = mode === "work" && Math.floor((Date.now() - began) / PHASE_MS) % 2 === 0;
  if (hasWork) waitForMachine(ctx, region, null);
  reconcile(ctx);
  await durable(ctx.db);
  const { sweeps, sweeping } = ctx.state.clouds;
  const isSwept = sweeps.get("lab")?.failures === 0 && sweeping.size === 0;
  if (mode === "drain" && isSwept && liveMachines(ctx.db).length === 0 && readLeases(dir).length === 0) break;
  await Bun.sleep(TURN_MS);
}
await app.close();
console.log("drained");
process.exit(0);

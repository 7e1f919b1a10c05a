/** The lives of machines and of pushes to a hub, as their loops record them. */
import type { Cloud } from "../../src/platform/config/cloud.ts";
import * as moves from "../../src/resources/machines/clouds/moves.ts";
import { find as findRegion } from "../../src/resources/machines/regions/service.ts";
import * as pushes from "../../src/resources/training/hub_pushes/rows.ts";
import type { TestApp } from "../harness.ts";

const CLOUD: Cloud = {
  name: "lab",
  file: "/none/lab.toml",
  up: "true",
  down: "true",
  list: "true",
  user: "root",
  work_dir: "verk",
  gpu_type: "cpu",
  gpu_count: 1,
  memory_gib: 0,
  rate_usd_per_hour: 0,
  idle_minutes: 1,
  max_machines: 1,
  up_minutes: 1,
  down_minutes: 1,
  workspaces: [],
};

export function useMachine(app: TestApp, regionId: string) {
  const region = findRegion(app.ctx, app.workspaceA, regionId);
  const row = region && moves.add(app.ctx, region, CLOUD, null);
  if (!row) throw new Error(`no machine for ${regionId}`);
  moves.beginCounting(app.ctx, row, { user: null, address: "192.0.2.1", port: 22, hostKey: null });
  moves.ready(app.ctx, row.id, "");
  moves.end(app.ctx, row.id, "no work");
  moves.recordFailure(app.ctx, row.id, "the API is away");
  moves.finish(app.ctx, row.id);
  moves.reportOrphan(app.ctx, row.name);
}

export function endPushes(app: TestApp, first: string, second: string) {
  pushes.begin(app.ctx, first, 1);
  const row = pushes.current(app.ctx.db, first);
  if (row) pushes.complete(app.ctx, row, { url: "https://hub/journey/model", commitId: "0" });
  pushes.fail(app.ctx, second, "the hub is away");
}

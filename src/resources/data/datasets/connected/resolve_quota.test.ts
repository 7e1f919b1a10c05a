import { afterEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { datasetCalls } from "../../../../../test/datasets_kit.ts";
import { manyApps, until } from "../../../../../test/harness.ts";
import { write } from "../../../../platform/db/db.ts";
import type { Supervisor } from "../../../../platform/workers/supervisor.ts";
import type { FromConnector, ToConnector } from "../../../../workers/protocol.ts";
import { usedBytes } from "../../storage_usage/service.ts";
import { datasets } from "../table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

/** A source that writes its file and tells `bytes` of it; with `ends` it then says that it has read all. */
function reading(bytes: number, ends: boolean) {
  const seen = { stopped: false, path: "" };
  const supervise = (real: Supervisor): Supervisor => ({
    ...real,
    spawn: (options) => {
      const report = (message: FromConnector) => options.onMessage?.(message as never);
      const exit = () => options.onExit?.({ message: "it ended" } as never);
      const worker = {
        send(task: ToConnector) {
          if (task.type !== "read") return true;
          seen.path = task.path;
          mkdirSync(dirname(task.path), { recursive: true });
          writeFileSync(task.path, "rows");
          report({ type: "reading", rows: 1, bytes, total_rows: null } as FromConnector);
          if (ends) report({ type: "read", rows: 1, bytes, sha256: "x", format: "prompt" } as FromConnector);
          if (ends) exit();
          return true;
        },
        async stop() {
          seen.stopped = true;
          exit();
        },
      };
      return worker as never;
    },
  });
  return { seen, supervise };
}

test.each([
  ["17.6: a reading of a source that goes beyond the quota is ended, and leaves nothing", 201, false],
  ["17.6: a reading that turns out to be beyond the quota at its end is not kept", 201, true],
])("%s", async (_name, bytes, ends) => {
  const { seen, supervise } = reading(bytes, ends);
  const app = open({ flags: { "quotas.dataset_bytes": 200 }, supervise });
  const id = await datasetCalls(() => app).create();
  const source = { source_type: "s3", source_uri: "s3://bucket/rows" } as const;
  write(app.ctx.db, (tx) => tx.update(datasets).set({ sourceType: "s3", source }).run());
  const { body } = await app.call("POST", `/v1/datasets/${id}/resolutions`, { credentials: {} });
  const ended = await until("the reading to end", async () => {
    const now = (await app.call("GET", `/v1/datasets/${id}/resolutions/${body.id}`)).body;
    return now.finished_at === null ? undefined : now;
  });
  expect(ended).toMatchObject({ status: "failed", error: { code: "quota_exceeded" } });
  expect(ended.error.message).toContain("quotas.dataset_bytes");
  expect([existsSync(seen.path), ends || seen.stopped]).toEqual([false, true]);
  expect(usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "datasets" })).toBe(0);
});

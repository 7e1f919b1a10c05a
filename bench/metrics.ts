/** Cost of a scrape with a thousand started jobs, each with metrics. */
import { openOffline } from "../src/app.ts";
import { loadConfig } from "../src/platform/config/config.ts";
import { write } from "../src/platform/db/db.ts";
import { preparedInsert } from "../src/platform/db/row.ts";
import { silentLog } from "../src/platform/log.ts";
import * as workspaces from "../src/resources/access/workspaces/service.ts";
import { trainingJobs } from "../src/resources/training/training_jobs/table.ts";
import { jobRow } from "../test/fake_trainers.ts";
import { makeKey, median, type Row, remove, startVerk, tempDir } from "./tools.ts";

const JOBS = 1_000;
const SCRAPES = 200;
const insert = preparedInsert(trainingJobs);

export async function run({ quick = false } = {}): Promise<Row[]> {
  const dir = tempDir();
  await addJobs(dir);
  const verk = await startVerk(dir);
  try {
    const headers = { authorization: `Bearer ${await makeKey(dir)}` };
    const scrape = async () => (await fetch(`${verk.url}/v1/metrics`, { headers })).text();
    for (let i = 0; i < 20; i++) await scrape();
    const times: number[] = [];
    let text = "";
    for (let i = 0; i < (quick ? 20 : SCRAPES); i++) {
      const begun = performance.now();
      text = await scrape();
      times.push(performance.now() - begun);
    }
    const jobs = text.match(/^verk_training_job_step\{/gm)?.length ?? 0;
    if (jobs !== JOBS) throw new Error(`the scrape shows ${jobs} jobs`);
    const typical = median(times);
    const slowest = times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] as number;
    const what = `a scrape with ${JOBS} jobs, ${Math.round(text.length / 1024)} KiB; p99 ${slowest.toFixed(1)} ms`;
    return [
      {
        bench: "metrics",
        what,
        value: `${typical.toFixed(1)} ms`,
        target: "≤ 20 ms",
        ok: typical <= 20,
        figure: { name: "a scrape of metrics", value: typical, unit: "ms" },
      },
    ];
  } finally {
    await verk.stop();
    remove(dir);
  }
}

/** Paused: what runs would be queued again by the server, which knows no process of it. */
async function addJobs(dir: string) {
  const config = loadConfig({ env: { HOME: dir }, flags: { data_dir: dir } });
  const { ctx, close } = await openOffline(config, { log: silentLog });
  const { id: workspaceId } = workspaces.create(ctx, { name: "bench", metadata: {} });
  const values = Object.fromEntries(Array.from({ length: 25 }, (_, i) => [`metric_${i}`, i / 7]));
  write(ctx.db, (tx) => {
    for (let i = 0; i < JOBS; i++) {
      const latestMetrics = { ...values, reward: i / JOBS, loss: 1 / (i + 1) };
      const more = { status: "paused", pauseReason: "by request", step: i, latestMetrics } as const;
      insert(tx, { ...jobRow(ctx.clock.now(), { workspaceId, datasetId: null }), ...more });
    }
  });
  await close();
}

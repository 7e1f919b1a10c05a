/**
 * The dashboard of the executable in a real Chromium: curves of a long run, scrolling of a large dataset, and bytes. Times
 * are on the clock; the browser, the server and other programs share the cores. `VERK_BENCH_ROWS` sets the rows.
 */
import { readFileSync, statSync } from "node:fs";
import { loadavg } from "node:os";
import { loadBundle } from "../src/resources/server/dashboard/bundle.ts";
import { type Dashboard, SIZES, startDashboard } from "../test/browser/kit.ts";
import { plantRuns } from "../test/browser/planted_runs.ts";
import { median, type Row } from "./tools.ts";

const STEPS = 100_000;
const RUNS = 10_000;
const TALL = { width: 1440, height: 4_000 };
const MIB = 1024 * 1024;
const BATCH = 50_000;
const SIZE = { full: { rows: 5_000_000, opens: 9, frames: 400 }, quick: { rows: 100_000, opens: 3, frames: 60 } };

type Started = Awaited<ReturnType<typeof startDashboard>>;

export async function run({ quick = false } = {}): Promise<Row[]> {
  const size = SIZE[quick ? "quick" : "full"];
  const rows = Number(process.env["VERK_BENCH_ROWS"] ?? size.rows);
  const started = await startDashboard({ env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", VERK_LOG__LEVEL: "warn" } });
  try {
    return [
      ...(await bytesOf(started)),
      ...(await drawing(started, size.opens)),
      ...(await scrollingRuns(started, size.frames)),
      ...(await scrolling(started, rows, size.frames)),
    ];
  } finally {
    await started.close();
  }
}

const row = (what: string, value: string, target = "", ok: boolean | null = null): Row => ({
  bench: "dashboard",
  what: `${what} (load ${loadavg()[0]?.toFixed(1)})`,
  value,
  target,
  ok,
});
const ms = (value: number) => `${value.toFixed(1)} ms`;
const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;

/** `isThread`: time that the page's thread had a core, whatever else the machine does. */
async function busyMs(page: Dashboard, isThread: boolean): Promise<number> {
  await page.send("Performance.enable", { timeDomain: isThread ? "threadTicks" : "timeTicks" });
  const { metrics } = (await page.send("Performance.getMetrics")) as { metrics: { name: string; value: number }[] };
  return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0);
}

const DRAWN = "performance.getEntriesByName('runs.draw', 'measure').at(-1)?.duration ?? 0";
const CURVES = "document.querySelectorAll('.chart canvas').length";

async function drawing({ server, page }: Started, opens: number): Promise<Row[]> {
  const [id = ""] = await plantRuns(server, [{ name: "long", steps: STEPS, samplesEvery: 10 }]);
  const open = async () => {
    await page.at("/runs");
    await page.waitForText("long");
    const before = await busyMs(page, true);
    await page.run(`history.pushState(null, "", "/runs/${id}"), dispatchEvent(new PopStateEvent("popstate"))`);
    await page.waitFor("the curves", () => page.run<boolean>(`(${DRAWN}) > 0 && ${CURVES} > 0`));
    return { draw: await page.run<number>(DRAWN), thread: (await busyMs(page, true)) - before };
  };
  await open(); // the code of the page is compiled
  const first: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 0; i < opens; i++) first.push(await open());
  await page.resize(TALL);
  await open();
  await page.waitFor("all curves", async () => (await page.run<number>(CURVES)) >= 12);
  const all = await page.run<number>(CURVES);
  await page.resize(SIZES.desktop);
  const times = first.map(({ draw }) => draw);
  const [typical, worst] = [median(times), Math.max(...times)];
  const what = `a run of ${STEPS} steps: metrics to painted curves, worst of ${opens} ${ms(worst)}`;
  const thread = median(first.map((each) => each.thread));
  return [
    row(what, ms(typical), "≤ 100 ms", typical <= 100),
    row(
      `the same: processor time of the page from click to curves, requests included; ${all} curves below`,
      ms(thread),
    ),
  ];
}

/** The list of runs, scrolled as a whole page. */
async function scrollingRuns({ server, page }: Started, frames: number): Promise<Row[]> {
  await plantRuns(
    server,
    Array.from({ length: RUNS }, (_, i) => ({ name: `run-${i}`, steps: 1 })),
  );
  await page.at("/runs");
  await page.waitForText(`${(RUNS + 1).toLocaleString("en-US")} runs`, 60_000);
  const times = await page.run<number[]>(FRAMES(frames, 120, "document.documentElement"));
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  const what = `${RUNS} runs, scrolled by 120 px a frame: p95 ${ms(p95)}, p99 ${ms(quantile(times, 0.99))}`;
  return [row(what, ms(p50), "≤ 16.8 ms", p50 <= 16.8 && p95 <= 16.8)];
}

const FRAMES = (frames: number, by: number, list: string) => `new Promise((resolve) => {
  const list = ${list};
  const times = [];
  let last = 0;
  const step = (now) => {
    if (last > 0) times.push(now - last);
    last = now;
    list.scrollTop += ${by};
    if (times.length < ${frames}) requestAnimationFrame(step);
    else resolve(times);
  };
  requestAnimationFrame(step);
})`;

async function scrolling({ server, page }: Started, rows: number, frames: number): Promise<Row[]> {
  const { body } = await server.call("POST", "/v1/datasets", { name: "large", format: "prompt" });
  const headers = { authorization: `Bearer ${await server.apiKey()}`, "content-type": "application/x-ndjson" };
  for (let at = 0; at < rows; at += BATCH) {
    const lines = Array.from({ length: Math.min(BATCH, rows - at) }, (_, i) => `{"prompt":"What is ${at + i} + 1?"}\n`);
    const sent = await fetch(`${server.url}/v1/datasets/${body.id}/rows`, {
      method: "POST",
      headers,
      body: lines.join(""),
    });
    if (!sent.ok) throw new Error(await sent.text());
  }
  await page.at(`/datasets/${body.id}`);
  await page.waitForText("What is 1 + 1?");
  const times = await page.run<number[]>(FRAMES(frames, 120, "document.querySelector('.datasets-list')"));
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  const what = `${rows} rows, scrolled by 120 px a frame: p95 ${ms(p95)}, p99 ${ms(quantile(times, 0.99))}`;
  return [row(what, ms(p50), "≤ 16.8 ms", p50 <= 16.8 && p95 <= 16.8)];
}

async function bytesOf({ server }: Started): Promise<Row[]> {
  const { index, assets } = await loadBundle();
  const bytes = (names: readonly string[], form: "gzip" | "brotli") =>
    names.reduce((sum, name) => sum + statSync(assets[name]?.[form] ?? "").size, 0);
  const all = Object.keys(assets);
  const first = [...new Set([...index.matchAll(/\/assets\/([\w.-]+)/g)].map(([, name = ""]) => name))];
  const load = index.length + bytes(first, "gzip");
  const embedded = index.length + bytes(all, "gzip") + bytes(all, "brotli");
  const binary = statSync(`/proc/${server.pid}/exe`).size;
  const names = readFileSync(`/proc/${server.pid}/cmdline`, "utf8").split("\0")[0];
  return [
    row("first load, gzip", `${(load / 1024).toFixed(1)} KiB`, "≤ 60 KiB", load <= 60 * 1024),
    row(
      `bytes of the dashboard in ${names?.split("/").at(-1)} of ${(binary / 1e6).toFixed(1)} MB`,
      ...([`${(embedded / MIB).toFixed(2)} MiB`, "≤ 1 MiB", embedded <= MIB] as const),
    ),
  ];
}

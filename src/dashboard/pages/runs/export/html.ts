/** One run as one HTML file: no code, no request, works from a disk. Its figures are in it as JSON too. */
import { bytes, count, duration, exactTime, money, NONE, number, words } from "../../../data/format.ts";
import { escaped, svgOf } from "../../../kit/chart/save.ts";
import type { Content } from "../../../kit/chart/series.ts";
import { type Alarm, alarmsOf, grouped, marksOf, shortAlarm } from "../alarms.ts";
import { constantOf, formatOf, mainPlot, type Plot, panelsOf } from "../panels.ts";
import { endsOf } from "../series.ts";
import type { JobCheckpoint, JobEvent, Point, TrainingJob } from "../types.ts";
import { datasetText } from "../words.ts";
import type { StepSamples } from "./choice.ts";

export type RunFile = {
  job: TrainingJob;
  points: readonly Point[];
  events: readonly JobEvent[];
  checkpoints: readonly JobCheckpoint[];
  /** Samples by step, oldest first. */
  samples: readonly StepSamples[];
  /** A sentence about samples that are not in the file; empty if all chosen ones are. */
  leftOut: string;
  madeAt: string;
  promptText: (prompt: unknown) => string;
};

const LARGE = { width: 1000, height: 300 };
const SMALL = { width: 480, height: 170 };
/** Nothing may be loaded and nothing may run, also when another server sends the file. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

export function runHtml(file: RunFile): string {
  const { job, points, events, madeAt } = file;
  const alarms = alarmsOf(events, points);
  const main = mainPlot(points);
  const title = escaped(job.output_name);
  const state = `${words(job.status)} · ${count(job.progress.step)} of ${count(job.progress.total_steps)} steps`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="${POLICY}">
<title>${title}</title><style>${STYLE}</style></head><body><main>
<header><h1>${title}</h1><p>${escaped(state)}${job.error ? ` · ${escaped(job.error.message)}` : ""}</p></header>
${statsOf(job, points)}
${main ? card(main.title, `${figureOf(main, alarms, LARGE)}${alarmList(alarms)}`) : ""}
<div class="half">${panelsOf(points)
    .map(({ title: name, plots, missing = "" }) =>
      card(
        name,
        plots.map((plot) => figureOf(plot, alarms, SMALL, plot.title !== name)).join("") ||
          `<p>${escaped(missing)}</p>`,
      ),
    )
    .join("")}</div>
<div class="half">${card("Setup", setupOf(job))}${card("Repeat this run", lockOf(file))}</div>
${job.reward_source ? card("Reward code", `<pre>${escaped(job.reward_source)}</pre>`) : ""}
${file.samples.length > 0 ? card("What it wrote", `${file.leftOut && `<p>${escaped(file.leftOut)}</p>`}${file.samples.map((each, i) => stepOf(file, each, i)).join("")}`) : ""}
<footer>Run ${escaped(job.id)}, saved ${escaped(exactTime(madeAt))} from Verk ${escaped(job.lock.app_version)}.</footer>
</main><script type="application/json" id="run">${dataOf(file)}</script></body></html>
`;
}

/** JSON that cannot end its element: no < is left. */
const dataOf = ({ job, points, events, checkpoints, samples }: RunFile): string =>
  JSON.stringify({ job, metrics: points, events, checkpoints, samples: samples.flatMap(([, of]) => of) }).replaceAll(
    "<",
    "\\u003c",
  );

const card = (title: string, body: string) => `<section><h2>${escaped(title)}</h2>${body}</section>\n`;

function figureOf(plot: Plot, alarms: readonly Alarm[], size: typeof LARGE, isNamed = false): string {
  const legend = plot.series.map(
    ({ label, token }) => `<span><i class="${token.slice(2)}"></i>${escaped(label)}</span>`,
  );
  if (plot.bandLabel) legend.push(`<span>band: ${escaped(plot.bandLabel)}</span>`);
  const constant = constantOf(plot);
  const picture =
    constant === undefined
      ? svgOf(contentOf(plot, alarms), size, (token) => `var(${token})`)
      : `<p>${escaped(number(constant))} in every step</p>`;
  const caption = `${isNamed ? `<b>${escaped(plot.title)}</b>` : ""}${legend.length > 1 ? legend.join("") : ""}`;
  return `<figure><figcaption>${caption}</figcaption>${picture}</figure>`;
}

const contentOf = ({ title, x, series, unit }: Plot, alarms: readonly Alarm[]): Content => ({
  label: title,
  x,
  series,
  marks: marksOf(alarms),
  format: formatOf(unit),
  xLabel: "step",
});

const alarmList = (alarms: readonly Alarm[]) =>
  alarms.length === 0
    ? ""
    : `<ul class="alarms">${grouped(alarms)
        .map(
          ({ type, steps, message }) =>
            `<li><b>${escaped(shortAlarm(type))}</b>: ${steps.length === 1 ? "step" : "steps"} ${steps.join(", ")}. ${escaped(message)}</li>`,
        )
        .join("")}</ul>`;

function statsOf(job: TrainingJob, points: readonly Point[]): string {
  const { headline_metric: metric, started_at: since, completed_at: until } = job;
  const took = since && until ? duration((Date.parse(until) - Date.parse(since)) / 1000) : NONE;
  const first = metric && endsOf(points, metric.name)?.first;
  const rows: [string, string][] = [
    ...(metric ? ([[metric.name, `${number(first)} → ${number(metric.value)}`]] as [string, string][]) : []),
    ["Took", took],
    ["Tokens", count(endsOf(points, "num_tokens")?.last)],
    ["Cost", money(job.cost_usd)],
    ["Energy", job.energy_wh === null ? NONE : `${number(job.energy_wh)} Wh`],
  ];
  return `<div class="stats">${rows.map(([name, value]) => `<div><span>${escaped(words(name))}</span><b>${escaped(value)}</b></div>`).join("")}</div>`;
}

const facts = (rows: readonly (readonly [string, string])[]) =>
  `<dl>${rows.map(([name, value]) => `<div><dt>${escaped(name)}</dt><dd>${escaped(value)}</dd></div>`).join("")}</dl>`;

const setupOf = ({ base_model, method, dataset, gpu, lora, hyperparameters }: TrainingJob) =>
  facts([
    ["Base model", base_model],
    ["Method", method.toUpperCase()],
    ["Dataset", dataset ? datasetText(dataset) : NONE],
    ["Device", gpu ? `${gpu.count} × ${gpu.type}` : NONE],
    ["LoRA", lora ? `rank ${lora.r}, alpha ${lora.alpha}` : "none"],
    ...Object.entries(hyperparameters).map(([name, value]) => [name, JSON.stringify(value)] as const),
  ]);

const lockOf = ({ job: { lock }, checkpoints }: RunFile) =>
  facts([
    ...Object.entries(lock).map(([name, value]) => [words(name), String(value ?? NONE)] as const),
    ...checkpoints.map(
      ({ step, is_best: isBest, size_bytes: size }) =>
        [`Checkpoint${isBest ? ", best" : ""}`, `step ${step}, ${bytes(size)}`] as const,
    ),
  ]);

function stepOf({ samples: all, promptText }: RunFile, [step, samples]: RunFile["samples"][number], i: number): string {
  const rows = samples.map(({ prompt, completion, reward, advantage, error, sub_rewards: parts }) => {
    const figures = [number(reward), number(advantage), partsText(parts)].map(
      (text) => `<td class="n">${escaped(text)}</td>`,
    );
    const wrong = error === null ? "" : `<p class="w">${escaped(error)}</p>`;
    return `<tr><td>${escaped(promptText(prompt))}</td><td><pre>${escaped(completion)}</pre>${wrong}</td>${figures.join("")}</tr>`;
  });
  const head = ["Prompt", "Answer", "Reward", "Advantage", "Parts"].map((name) => `<th>${name}</th>`).join("");
  const open = i === all.length - 1 ? " open" : "";
  return `<details${open}><summary>Step ${step}</summary><table><thead><tr>${head}</tr></thead><tbody>${rows.join("")}</tbody></table></details>`;
}

const partsText = (parts: Readonly<Record<string, number | null>>) =>
  Object.entries(parts)
    .map(([name, value]) => `${name} ${number(value)}`)
    .join(", ");

/** The look of an exported run. It follows the reader's light or dark setting. */
const STYLE = `
:root{color-scheme:light dark;--bg:light-dark(#f7f7f5,#121311);--surface:light-dark(#fff,#1a1c19);--line:light-dark(#e3e3de,#2b2e29);
--text:light-dark(#1b1c1a,#e9eae6);--muted:light-dark(#5f625c,#a4a89d);--warn:light-dark(#9a4a06,#fbbf24);--c1:light-dark(#0f766e,#2dd4bf);
--c2:light-dark(#b45309,#fbbf24);--c3:light-dark(#4f46e5,#a5b4fc);--c4:light-dark(#be185d,#f9a8d4);--c5:light-dark(#64748b,#94a3b8);--c6:light-dark(#0369a1,#7dd3fc)}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 16px}h1{font-size:22px;margin:0;overflow-wrap:anywhere}h2{font-size:13px;color:var(--muted);margin:0 0 10px}
p{margin:2px 0}header p,footer,dt,figcaption,summary{color:var(--muted)}footer{font-size:12px;margin-top:16px}
section,.stats>div{background:var(--surface);border:1px solid var(--line);border-radius:8px;padding:16px;margin-top:16px;min-width:0}
.half{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 16px;align-items:start}
.stats{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:0 16px}
.stats span{font-size:12px;color:var(--muted)}.stats b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
figure{margin:0 0 12px}figcaption{font-size:12px;display:flex;gap:14px;flex-wrap:wrap}figcaption b{color:var(--text)}
figcaption i{display:inline-block;width:10px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
i.c1{background:var(--c1)}i.c2{background:var(--c2)}i.c3{background:var(--c3)}i.c4{background:var(--c4)}i.c5{background:var(--c5)}i.c6{background:var(--c6)}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--muted)}.g{stroke:var(--line)}
.l{fill:none;stroke-width:1.8;stroke-linejoin:round}.m{stroke:var(--warn);stroke-dasharray:4 4}svg .w{fill:var(--warn)}.w{color:var(--warn)}
dl{margin:0;display:grid;gap:6px;font-size:13px}dl div{display:flex;justify-content:space-between;gap:12px}dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}
pre{margin:0;font:12.5px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}.alarms{font-size:13px;padding-left:18px}
details{border-top:1px solid var(--line);padding:8px 0}summary{cursor:pointer}table{width:100%;border-collapse:collapse;font-size:13px;table-layout:fixed}
th,td{text-align:left;vertical-align:top;padding:6px 8px;border-bottom:1px solid var(--line);overflow-wrap:anywhere}th{font-weight:500;color:var(--muted)}
.n{font-variant-numeric:tabular-nums}@media(max-width:720px){.half{grid-template-columns:minmax(0,1fr)}}
`.replaceAll("\n", "");

/** One run as one HTML file: no code, no request, works from a disk. Its figures are in it as JSON too. */
import { bytes, count, duration, exactTime, money, NONE, number, words } from "../../../data/format.ts";
import { type Alarm, alarmsOf, constantOf, mainPlot, type Plot, panelsOf } from "../panels.ts";
import { endsOf } from "../series.ts";
import type { JobCheckpoint, JobEvent, Point, TrainingJob } from "../types.ts";
import type { StepSamples } from "./choice.ts";
import { STYLE } from "./style.ts";
import { escaped, svgOf } from "./svg.ts";

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
    constant === undefined ? svgOf(plot, alarms, size) : `<p>${escaped(number(constant))} in every step</p>`;
  const caption = `${isNamed ? `<b>${escaped(plot.title)}</b>` : ""}${legend.length > 1 ? legend.join("") : ""}`;
  return `<figure><figcaption>${caption}</figcaption>${picture}</figure>`;
}

const alarmList = (alarms: readonly Alarm[]) =>
  alarms.length === 0
    ? ""
    : `<ul class="alarms">${alarms.map(({ step, message }) => `<li><b>step ${step}</b> ${escaped(message)}</li>`).join("")}</ul>`;

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
    ["Dataset", dataset ? `${dataset.id}${dataset.snapshot_id ?? ""}` : NONE],
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

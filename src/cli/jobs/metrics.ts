import { command, EXIT, JSON_FLAG, SERVER_FLAGS, wholeOf } from "../args.ts";
import { connect } from "../connect.ts";
import { interruptible } from "../interrupt.ts";
import { note, printJson, printTable } from "../output.ts";
import { toOutput } from "../transfer/sink.ts";
import { mustFind, pathOf } from "./find.ts";
import { type Point, seriesOf, shortNumber, sparkline } from "./view.ts";

type Metrics = { keys: string[]; total_points: number; sampled: boolean; data: Point[] };

export const metrics = command({
  summary: "Show the metrics of a job: one line for each metric, or with --key the values step by step",
  takes: ["job"],
  flags: {
    ...SERVER_FLAGS,
    key: {
      type: "string",
      value: "NAME",
      multiple: true,
      doc: "Show this metric step by step, such as reward; repeatable",
    },
    from: { type: "string", value: "STEP", doc: "First step" },
    to: { type: "string", value: "STEP", doc: "Last step" },
    points: { type: "string", value: "N", doc: "At most this many steps; spikes are kept (default 1000)" },
    csv: { type: "boolean", doc: "Print CSV instead of text" },
    json: JSON_FLAG,
  },
  examples: [
    "verk jobs metrics sums",
    "verk jobs metrics sums --key reward --key kl",
    "verk jobs metrics sums --csv > sums.csv",
  ],
  fields: { keys: "--key", from_step: "--from", to_step: "--to", max_points: "--points" },
  exits: { 1: "failed: there is no such job" },
  async run({ json, csv, key, from, to, points, ...where }, target = "") {
    const query = new URLSearchParams();
    if (key.length > 0) query.set("keys", key.join(","));
    for (const [name, flag, text] of [
      ["from_step", "from", from],
      ["to_step", "to", to],
      ["max_points", "points", points],
    ] as const)
      if (text !== undefined) query.set(name, String(wholeOf(flag, text)));
    const { client } = await connect(where);
    const job = await mustFind(client, target);
    if (csv) {
      query.set("format", "csv");
      return await interruptible(async (signal) => {
        await toOutput(client.download(pathOf(job.id, `/metrics?${query}`), signal), undefined);
        return EXIT.ok;
      });
    }
    const { body } = await client.call<Metrics>("GET", pathOf(job.id, `/metrics?${query}`));
    if (json) printJson(body);
    else show(body, key, job.output_name);
    return EXIT.ok;
  },
});

function show({ data, keys, total_points, sampled }: Metrics, chosen: readonly string[], name: string) {
  const empty = `${name} has no metrics yet. \`verk jobs watch ${name}\` follows it.`;
  if (chosen.length === 0) {
    const rows = keys.map((key) => summaryOf(key, seriesOf(data, key)));
    printTable(["METRIC", "FIRST", "LAST", "LOWEST", "HIGHEST", "CURVE"], rows, empty);
  } else {
    const missing = chosen.filter((key) => !keys.includes(key));
    if (missing.length > 0 && total_points > 0)
      note(`${name} has no metric ${missing.join(", ")}. \`verk jobs metrics ${name}\` shows its metrics.`);
    const cell = (value: number | undefined) => (value === undefined ? "-" : shortNumber(value));
    const rows = data.map(({ step, values }) => [String(step), ...chosen.map((key) => cell(values[key]))]);
    printTable(["STEP", ...chosen], rows, empty);
  }
  if (sampled) note(`${data.length} of ${total_points} steps are shown. --from, --to and --points choose others.`);
}

const CURVE = 24;

function summaryOf(key: string, series: readonly number[]): string[] {
  const [lowest, highest] = [Math.min(...series), Math.max(...series)];
  const numbers = [series[0] ?? Number.NaN, series.at(-1) ?? Number.NaN, lowest, highest].map(shortNumber);
  return [key, ...numbers, sparkline(series, CURVE)];
}

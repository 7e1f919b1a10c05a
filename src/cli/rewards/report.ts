/** Prints rewards: a row for each sample, then a summary. */
import type { Language, Rejection } from "../../lib/rewards/contract.ts";
import type { Scored, ScoredBatch, ScoreSummary } from "../../sandbox/reward/scorer_types.ts";
import { paint, plain, print, printTable } from "../output.ts";

const MESSAGE_CHARS = 160;

export type Report = ScoredBatch & {
  /** Line number of each sample in its file. */
  lines: readonly number[];
  layers: readonly string[];
  missing: readonly string[];
};

export function printReport({ results, summary, stdout, lines, layers, missing }: Report) {
  const names = [...new Set(results.flatMap(({ sub_rewards }) => Object.keys(sub_rewards)))];
  const parts = names.length > 1 ? names : []; // a single one equals the reward
  const rows = results.map((each) => [
    String(lines[each.index] ?? "-"),
    figure(each.reward),
    ...parts.map((name) => figure(each.sub_rewards[name] ?? null)),
    each.latency_ms.toFixed(1),
    faultOf(each, parts.length > 0),
  ]);
  printTable(["LINE", "REWARD", ...parts, "MS", "ERROR"], rows, "No rows.");
  print("");
  for (const line of summaryOf(summary)) print(line);
  print(`sandbox   ${layers.join(", ")}${missing.length > 0 ? ` (not available here: ${missing.join(", ")})` : ""}`);
  if (stdout !== "") print(`\noutput of the code:\n${plain(stdout.trimEnd())}`);
}

const figure = (value: number | null) => (value === null ? "-" : String(Number(value.toPrecision(6))));

/** Formats `exception, line 3: division by zero`, with the name of the function if there are several. */
function faultOf({ error }: Scored, several: boolean): string {
  if (!error) return "";
  const { kind, line, message, reward } = error;
  const where = [several ? `${reward}:` : [], line === null ? `${kind}:` : `${kind}, line ${line}:`].flat().join(" ");
  return paint("red", `${where} ${plain(message.replaceAll(/\s+/g, " ").slice(0, MESSAGE_CHARS))}`);
}

function summaryOf(summary: ScoreSummary): string[] {
  const { count, scored, mean, std, min, max, latency_ms_p50: p50, latency_ms_p95: p95 } = summary;
  const faults = Object.entries(summary.faults).map(([kind, times]) => `${times} ${kind}`);
  const ms = (value: number | null) => (value === null ? "-" : `${value.toFixed(1)} ms`);
  return [
    `rewards   ${scored} of ${count} scored; mean ${figure(mean)}, std ${figure(std)}, from ${figure(min)} to ${figure(max)}`,
    `errors    ${faults.length > 0 ? faults.join(", ") : "none"}`,
    `latency   p50 ${ms(p50)}, p95 ${ms(p95)}`,
  ];
}

/** Formats `reward.py:3:5: syntax: invalid syntax` and the line of code with a mark below the column. */
export function rejectionText(path: string, source: string, rejection: Rejection, language: Language): string {
  const { kind, message, line, column } = rejection;
  const location = [path, line, column].filter((each) => each !== null).join(":");
  const text = line === null ? undefined : source.split("\n")[line - 1]?.trimEnd();
  const head = `${location}: ${kind}: ${plain(message)}`;
  if (!text) return head;
  // Python counts code points, JavaScript UTF-16 units.
  const units = language === "python" ? [...text] : text.split("");
  const before = plain(units.slice(0, Math.max(0, (column ?? 1) - 1)).join(""));
  const room = before.replaceAll(/[^\t]+/g, (run) => " ".repeat(Bun.stringWidth(run)));
  return `${head}\n    ${plain(text)}${column === null ? "" : `\n    ${room}^`}`;
}

/** Prints the results of an evaluator: a line for each row, then a summary. */
import type { EvaluatorRun } from "../../resources/quality/evaluators/schema.ts";
import { paint, plain, print, printTable } from "../output.ts";

const TEXT_CHARS = 120;

type Result = EvaluatorRun["results"][number];
type Summary = EvaluatorRun["summary"];

export function printReport(results: readonly Result[], summary: Summary, lines: readonly number[]) {
  const rows = results.map((each) => [
    String(lines[each.index] ?? "-"),
    figure(each.score),
    each.passed === null ? "-" : each.passed ? "yes" : "no",
    plain(each.label ?? "-"),
    each.latency_ms.toFixed(1),
    each.error === null ? shortened(each.reason ?? "") : paint("red", shortened(each.error)),
  ]);
  printTable(["LINE", "SCORE", "PASSED", "LABEL", "MS", "REASON"], rows, "No rows.");
  print("");
  const { count, scored, failed, mean, pass_rate: rate } = summary;
  print(`scores   ${scored} of ${count} rows; mean ${figure(mean)}`);
  print(`passed   ${rate === null ? "- (no threshold)" : `${(100 * rate).toFixed(1)} %`}`);
  print(`errors   ${failed === 0 ? "none" : failed}`);
}

const figure = (value: number | null) => (value === null ? "-" : String(Number(value.toPrecision(6))));
const shortened = (text: string) => plain(text.replaceAll(/\s+/g, " ").slice(0, TEXT_CHARS));

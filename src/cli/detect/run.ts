/** Scores many files with one detector, a few at a time, so that memory does not grow with their number. */
import type { Config } from "../../platform/config/config.ts";
import { interruptible } from "../interrupt.ts";
import { createProgress, SILENT } from "../progress.ts";
import { AT_ONCE, type Detector, type Outcome, openDetector, type ScoreOptions } from "./detector.ts";
import type { InputFile } from "./files.ts";
import { inOrder } from "./in_order.ts";

/** Runs `work` with a detector. Its process and its files are removed afterwards, even after a failure. */
export const withDetector = (
  config: Config,
  work: (detector: Detector, signal: AbortSignal) => Promise<number>,
  options: { features?: boolean } = {},
) =>
  interruptible(async (signal) => {
    const detector = await openDetector(config, options);
    try {
      return await work(detector, signal);
    } finally {
      await detector.close();
    }
  });

/** Yields outcomes in the order of the files. Progress is shown if some files came from a folder. */
export async function* outcomes(
  detector: Detector,
  files: readonly InputFile[],
  options: ScoreOptions,
): AsyncGenerator<Outcome> {
  const progress = files.some(({ named }) => !named) ? createProgress() : SILENT;
  const sharesScreen = process.stdout.isTTY && process.stderr.isTTY;
  const begunAt = performance.now();
  let done = 0;
  try {
    for await (const outcome of inOrder(files, AT_ONCE, (file) => detector.examine(file, options))) {
      done++;
      if (sharesScreen) progress.end(); // otherwise the next line would follow the bar
      yield outcome;
      const perSecond = done / Math.max(0.001, (performance.now() - begunAt) / 1000);
      progress.show("scoring", done / files.length, `${done} of ${files.length}, ${perSecond.toFixed(1)}/s`);
    }
  } finally {
    progress.end();
  }
}

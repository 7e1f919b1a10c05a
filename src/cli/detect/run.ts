/** Many files through one detector, a few at a time: what is in memory does not grow with their number. */
import type { Config } from "../../platform/config/config.ts";
import type { ModelName } from "../../workers/protocol_detector.ts";
import { interruptible } from "../interrupt.ts";
import { createProgress, SILENT } from "../progress.ts";
import { AT_ONCE, type Detector, type Outcome, openDetector } from "./detector.ts";
import type { Found } from "./files.ts";
import { inOrder } from "./in_order.ts";

type Ask = { models: readonly ModelName[]; robustness: boolean; signal: AbortSignal };

/** Whatever happens, the detector's process and its files are gone afterwards. */
export const withDetector = (config: Config, work: (detector: Detector, signal: AbortSignal) => Promise<number>) =>
  interruptible(async (signal) => {
    const detector = await openDetector(config);
    try {
      return await work(detector, signal);
    } finally {
      await detector.close();
    }
  });

/** In the order of the files. Progress is shown where they came from a folder. */
export async function* outcomes(detector: Detector, found: readonly Found[], ask: Ask): AsyncGenerator<Outcome> {
  const progress = found.some(({ named }) => !named) ? createProgress() : SILENT;
  const sharesScreen = process.stdout.isTTY && process.stderr.isTTY;
  const begunAt = performance.now();
  let done = 0;
  try {
    for await (const outcome of inOrder(found, AT_ONCE, (file) => detector.examine(file, ask))) {
      done++;
      if (sharesScreen) progress.end(); // the line that comes now would be written behind the bar
      yield outcome;
      const perSecond = done / Math.max(0.001, (performance.now() - begunAt) / 1000);
      progress.show("scoring", done / found.length, `${done} of ${found.length}, ${perSecond.toFixed(1)}/s`);
    }
  } finally {
    progress.end();
  }
}

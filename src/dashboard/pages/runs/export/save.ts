import { fileName, saveText } from "../../../kit/chart/save.ts";
import { hasReward } from "../methods.ts";
import { byAdvantage, samplesOf } from "../run/earlier.ts";
import { promptText } from "../sample.tsx";
import type { JobSample } from "../types.ts";
import { bounded, chosenSteps } from "./choice.ts";
import { type RunFile, runHtml } from "./html.ts";

/** Makes the file in the browser and saves it like a download. */
export async function saveRun(run: Pick<RunFile, "job" | "points" | "events" | "checkpoints">) {
  const { job } = run;
  const steps = hasReward(job.method) ? chosenSteps(job.progress.step) : [];
  const read = async (step: number) => [step, byAdvantage(await samplesOf(job.id, step))] as const;
  const all: (readonly [number, readonly JobSample[]])[] = await Promise.all(steps.map(read));
  const { samples, leftOut } = bounded(all.filter(([, of]) => of.length > 0));
  const html = runHtml({ ...run, samples, leftOut, promptText, madeAt: new Date().toISOString() });
  saveText(`${fileName(job.output_name)}.html`, "text/html", html);
  return true;
}

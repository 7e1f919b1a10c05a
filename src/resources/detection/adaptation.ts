/**
 * The adaptations of a data directory: files `1.json`, `2.json` … that never change, and `current.json`, which names the
 * one in use. A process that is killed between both writes leaves a file that nothing names.
 */
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Adaptation, type AdaptedModel, readAdaptation } from "../../lib/detection/adaptation.ts";
import { failpoint } from "../../platform/failpoint.ts";
import { errorCode, writeFileAtomicSync } from "../../platform/files.ts";

const Current = z.strictObject({ number: z.int().positive().nullable() });

const folderOf = (dataDir: string) => join(dataDir, "adapted_detectors");
export const pathOf = (dataDir: string, number: number) => join(folderOf(dataDir), `${number}.json`);

/** Undefined: the models are used as shipped. Also for a caller who cannot read the data directory. */
export function currentNumber(dataDir: string): number | undefined {
  try {
    const text = readFileSync(join(folderOf(dataDir), "current.json"), "utf8");
    return Current.parse(JSON.parse(text)).number ?? undefined;
  } catch (error) {
    if (["ENOENT", "EACCES", "ENOTDIR"].includes(errorCode(error) ?? "")) return undefined;
    throw error;
  }
}

export function readCurrent(dataDir: string): Adaptation | undefined {
  const number = currentNumber(dataDir);
  return number === undefined ? undefined : readAdaptation(readFileSync(pathOf(dataDir, number)));
}

/** Stores an adaptation under the next number and puts it in use. */
export function keep(dataDir: string, models: Record<string, AdaptedModel>, nowMs: number): Adaptation {
  mkdirSync(folderOf(dataDir), { recursive: true, mode: 0o700 });
  const taken = readdirSync(folderOf(dataDir)).map((name) => Number(/^(\d+)\.json$/.exec(name)?.[1] ?? 0));
  const number = Math.max(0, ...taken) + 1;
  const adaptation: Adaptation = { format: 1, number, made_at: new Date(nowMs).toISOString(), models };
  write(pathOf(dataDir, number), adaptation);
  failpoint("detection.adaptation_written");
  use(dataDir, number);
  return adaptation;
}

/** Puts the models as shipped in use. Adaptations stay in their files. */
export function reset(dataDir: string): void {
  if (currentNumber(dataDir) !== undefined) use(dataDir, null);
}

const use = (dataDir: string, number: number | null) => write(join(folderOf(dataDir), "current.json"), { number });
const write = (path: string, value: object) => writeFileAtomicSync(path, `${JSON.stringify(value)}\n`);

/** Writes the heat maps of `verk detect --heatmap DIR`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { Outcome } from "./detector.ts";

/** Returns a function that writes the heat map of one outcome. Two files of one name get two pictures. */
export function heatmapWriter(dir: string): (outcome: Outcome) => void {
  mkdirSync(dir, { recursive: true });
  const taken = new Map<string, number>();
  return (outcome) => {
    if (outcome.status !== "scored" || !outcome.scored.heatmap) return;
    const name = basename(outcome.file);
    const earlier = taken.get(name) ?? 0;
    taken.set(name, earlier + 1);
    const suffix = earlier === 0 ? "" : `.${earlier + 1}`;
    writeFileSync(join(dir, `${name}${suffix}.heatmap.png`), Buffer.from(outcome.scored.heatmap.png, "base64"));
  };
}

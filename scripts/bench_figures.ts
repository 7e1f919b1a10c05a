/**
 * The figures of the last version, by architecture (bench/figures.json). Each is a ratio to the speed of the machine
 * right before and after its benchmark, so that figures of another machine, or of a busy one, can be compared at all.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Figure } from "../bench/tools.ts";
import { VERSION } from "../src/lib/version.ts";

const FILE = join(import.meta.dir, "../bench/figures.json");
/** A figure that moved by less may be noise. */
const NOISE = 0.15;
const CALIBRATION_MS = 1_500;

/** `ratio`: the value of a machine with the speed 1. */
type Reading = { value: number; unit: Figure["unit"]; ratio: number };
/** `speed`: the middle one of the run. */
type Version = { version: string; speed: number; figures: Record<string, Reading> };
type Figures = Record<string, Version | undefined>;
/** `speed`: that of the machine around the benchmark. */
export type Measured = Figure & { speed: number };

/** Compares with the kept figures of this architecture, and gives a table. */
export async function compare(figures: readonly Measured[], { keep = false } = {}): Promise<string> {
  const all = (await Bun.file(FILE).exists()) ? ((await Bun.file(FILE).json()) as Figures) : {};
  const before = all[process.arch];
  if (keep) {
    const kept = Object.fromEntries(figures.map((figure) => [figure.name, readingOf(figure)]));
    const speed = middleSpeed(figures);
    all[process.arch] = { version: VERSION, speed, figures: { ...before?.figures, ...kept } };
    await Bun.write(FILE, `${JSON.stringify(all, null, 2)}\n`);
  }
  return tableOf(figures, before);
}

const middleSpeed = (figures: readonly Measured[]): number =>
  figures.map(({ speed }) => speed).sort((a, b) => a - b)[figures.length >> 1] ?? 1;

const readingOf = (figure: Measured): Reading => ({
  value: figure.value,
  unit: figure.unit,
  ratio: ratioOf(figure, figure.speed),
});

/** Rates grow with the speed of the machine, times shrink, and sizes stay. */
export function ratioOf({ value, unit }: Pick<Figure, "value" | "unit">, speed: number): number {
  if (unit === "/s") return value / speed;
  return unit === "MB" ? value : value * speed;
}

/** How much better, as a share: 0.1 is a tenth better, -0.1 a tenth worse. */
export const gainOf = (unit: Figure["unit"], before: number, now: number): number =>
  unit === "/s" ? now / before - 1 : before / now - 1;

export function tableOf(figures: readonly Measured[], before: Version | undefined): string {
  const rows = figures.map((figure) => {
    const { name, value, unit } = figure;
    const known = before?.figures[name];
    if (!known) return `| ${name} | | ${shown(value, unit)} | new |`;
    const gain = gainOf(unit, known.ratio, ratioOf(figure, figure.speed));
    const percent = `${gain < 0 ? "" : "+"}${(100 * gain).toFixed(0)} %`;
    const word = gain < 0 ? "worse" : "better";
    const moved = Math.abs(gain) > NOISE ? `**${percent}, ${word}**` : percent;
    return `| ${name} | ${shown(known.value, unit)} | ${shown(value, unit)} | ${moved} |`;
  });
  const speed = middleSpeed(figures).toFixed(2);
  const machine = before ? `${before.speed.toFixed(2)} → ${speed}` : speed;
  const since = before?.version ?? "no kept version";
  const title = `Since ${since} (${process.arch}, speed of the machine ${machine}); moves are by ratio to that speed`;
  return [title, "", "| what | before | now | moved |", "|---|---|---|---|", ...rows].join("\n");
}

const shown = (value: number, unit: Figure["unit"]) =>
  unit === "/s" ? `${Math.round(value)}/s` : `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;

/** Work of the kinds that the server does: JSON, hashes, maps and text. 1 is a machine that does it once in 10 ms. */
export function measureSpeed(): number {
  const text = JSON.stringify(
    Array.from({ length: 2_000 }, (_, i) => ({ id: `id_${i}`, at: i, words: "a few words of text" })),
  );
  const until = performance.now() + CALIBRATION_MS;
  const times: number[] = [];
  while (performance.now() < until) {
    const begun = performance.now();
    for (let i = 0; i < 4; i++) {
      const rows = JSON.parse(text) as { id: string; at: number; words: string }[];
      const byId = new Map(rows.map((row) => [row.id, row]));
      createHash("sha256")
        .update(JSON.stringify([...byId.values()].sort((a, b) => b.at - a.at)))
        .digest();
    }
    times.push(performance.now() - begun);
  }
  const typical = times.sort((a, b) => a - b)[times.length >> 1] as number;
  return 10 / typical;
}

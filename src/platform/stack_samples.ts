/**
 * Samples of the stack of this thread, by the profiler of the runtime. A thread of the profiler interrupts JavaScript at
 * intervals and notes the functions that run; an idle server is not interrupted. Figures: docs/log.md, ADR 0072.
 */
import * as jsc from "bun:jsc";
import { Session } from "node:inspector";

export type Frame = { name: string; sourceURL?: string; line?: number };
/** `timestamp`: seconds of a clock of its own. `frames`: the innermost first. */
export type StackSample = { timestamp: number; frames: Frame[] };

export type Sampling = {
  /** The samples since the last call. They use memory until they are taken. */
  take: () => StackSample[];
  stop: () => void;
};

/** The types of the runtime lack it. */
const { samplingProfilerStackTraces } = jsc as unknown as {
  samplingProfilerStackTraces: () => { traces: StackSample[] };
};

const isTaking = ({ name }: Frame) => name === "samplingProfilerStackTraces"; // it is sampled too

/** There is one profiler for each thread: a second start changes the interval of the first. */
export function startSampling(everyMs: number): Sampling {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.setSamplingInterval", { interval: everyMs * 1000 });
  session.post("Profiler.start");
  return {
    take: () => samplingProfilerStackTraces().traces.filter(({ frames }) => !frames.some(isTaking)),
    stop() {
      session.post("Profiler.stop");
      session.disconnect();
    },
  };
}

const LEAST_SHARE = 0.3; // of all samples; below it the paths have parted
const MOST_FRAMES = 24;

/**
 * The way that most samples share, the innermost function first, each with its share of the samples. A function that
 * calls itself is shown once.
 */
export function hotPath(samples: readonly StackSample[]): string[] {
  const path: string[] = [];
  let here = samples.map(({ frames }) => frames.toReversed().filter(isNotRepeated).map(shownFrame));
  for (let depth = 0; ; depth++) {
    const counts = new Map<string, number>();
    for (const names of here) {
      const name = names[depth];
      if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const [name, count] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? ["", 0];
    if (count === 0 || count < samples.length * LEAST_SHARE) return path.reverse().slice(0, MOST_FRAMES);
    path.push(`${name} ${Math.round((100 * count) / samples.length)}%`);
    here = here.filter((names) => names[depth] === name);
  }
}

const isNotRepeated = ({ name }: Frame, i: number, all: readonly Frame[]) => all[i - 1]?.name !== name;

/** The executable is one file, so there the name alone says where. */
function shownFrame({ name, sourceURL = "" }: Frame): string {
  const file = sourceURL.startsWith("/$bunfs/") ? "" : sourceURL.replace(/^.*\/(?=(?:src|test|node_modules)\/)/, "");
  return file === "" ? name : `${name} (${file})`;
}

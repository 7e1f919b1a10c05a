import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startsOf } from "./fake_starts.ts";
import type { DetectorLife, Instructions } from "./fake_workers/detector.ts";
import { withFakes } from "./fake_workers/program.ts";
import { many, type Options, tempDir, testApp } from "./harness.ts";

/** Detectors that do what `lives` says at their start, and then what each file wishes. */
export const fakeDetectors = (script: string) => withFakes("detector", script);

const JPEG = [0xff, 0xd8, 0xff];
const WAV = Buffer.from("RIFF....WAVE");
let made = 0;

/** A unique file with the first bytes of its format, followed by its instructions. */
export const bytesOf = (instructions: Instructions = {}, start: Uint8Array = Uint8Array.from(JPEG)): Buffer =>
  Buffer.concat([start, Buffer.from(JSON.stringify({ ...instructions, made: made++ }))]);
export const imageOf = (instructions: Instructions = {}) => bytesOf(instructions).toString("base64");
export const clipOf = (instructions: Instructions = {}) => bytesOf(instructions, WAV).toString("base64");

type Detecting = Omit<Options, "supervise"> & { lives?: readonly DetectorLife[] };

export function detecting({ lives = [{}], flags = {}, ...options }: Detecting = {}) {
  const dir = options.dir ?? tempDir();
  const script = join(dir, "detectors.json");
  mkdirSync(dir, { recursive: true });
  writeFileSync(script, JSON.stringify(lives));
  const quiet = { "workers.silence_ms": 86_400_000 };
  const app = testApp({ ...options, dir, flags: { ...quiet, ...flags }, supervise: fakeDetectors(script) });
  return Object.assign(app, {
    starts: () => startsOf(script),
    /** How often a detector was asked. */
    scored: () => {
      try {
        return readFileSync(`${script}.scored`, "utf8").split("\n").length - 1;
      } catch {
        return 0;
      }
    },
    relive: (next: readonly DetectorLife[]) => writeFileSync(script, JSON.stringify(next)),
    detect: (instructions: Instructions = {}, more: object = {}) =>
      app.call("POST", "/api/detect", { image: imageOf(instructions), ...more }),
  });
}

export type DetectingApp = ReturnType<typeof detecting>;

/** For tests that open several: `const { open, closeAll } = manyDetecting(); afterEach(closeAll)`. */
export const manyDetecting = () => many<Detecting, DetectingApp>(detecting);

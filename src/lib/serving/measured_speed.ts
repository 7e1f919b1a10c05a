/** Measured speeds of the two decoders, kept in the data directory, and which of the two decodes. */
import { z } from "zod";

/** Below the data directory. `verk doctor --speed` writes it. */
export const SPEEDS_FILE = "speeds.json";
const MOST_KEPT = 200;

const Rate = z.number().positive();
/** Tokens a second: of a prompt, and of so many answers at once. */
export const Speed = z.object({
  prompt: Rate,
  answers: z.array(z.object({ streams: z.int().min(1), rate: Rate })).min(1),
});
export type Speed = z.infer<typeof Speed>;

const Measured = z.object({
  /** The card's name. */
  gpu: z.string().max(200),
  /** SHA-256 of the model's file. */
  sha256: z.string().length(64),
  verk: z.string().max(100),
  measured_at: z.iso.datetime(),
  own: Speed,
  library: Speed,
});
export type Measured = z.infer<typeof Measured>;

export const Speeds = z.object({ measured: z.array(Measured).max(MOST_KEPT) });
export type Speeds = z.infer<typeof Speeds>;

/** The newest one of a card and a file counts. */
export const withMeasured = ({ measured }: Speeds, added: Measured): Speeds => ({
  measured: [added, ...measured.filter(({ gpu, sha256 }) => gpu !== added.gpu || sha256 !== added.sha256)].slice(
    0,
    MOST_KEPT,
  ),
});

/** Compared is the time of an answer of 256 tokens after a prompt of 1,024. */
const TYPICAL = { prompt: 1024, answer: 256 };

/** `rate`: of all streams together. */
const secondsOf = (speed: Speed, rate: number) => TYPICAL.prompt / speed.prompt + TYPICAL.answer / rate;

/** Above 1: our kernels are faster. The geometric mean over the numbers of streams that a deployment can have. */
export function ratioOf(own: Speed, library: Speed, parallel: number): number {
  const [first] = own.answers;
  const shared = own.answers.flatMap((mine) => {
    const other = library.answers.find(({ streams }) => streams === mine.streams);
    return other && (mine.streams <= parallel || mine === first) ? [[mine, other] as const] : [];
  });
  if (shared.length === 0) return 1;
  const logs = shared.map(([mine, other]) => Math.log(secondsOf(library, other.rate) / secondsOf(own, mine.rate)));
  return Math.exp(logs.reduce((sum, log) => sum + log, 0) / logs.length);
}

type Load = { gpu: string; sha256: string; parallel: number };

/** Undefined: it was not measured, so our kernels decode what they can. */
export function fasterDecoder({ measured }: Speeds, { gpu, sha256, parallel }: Load): "own" | "library" | undefined {
  const found = measured.find((each) => each.gpu === gpu && each.sha256 === sha256);
  return found && (ratioOf(found.own, found.library, parallel) >= 1 ? "own" : "library");
}

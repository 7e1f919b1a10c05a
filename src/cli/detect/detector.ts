/**
 * Runs the detector of the server without the server: the same process under the same supervisor, which restarts it
 * when a file crashes it. It needs no key and no data directory. Its sockets are in a separate folder, because a server
 * that starts meanwhile kills all processes it finds in its data directory.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Ensemble, ensembleOf } from "../../lib/detection/tiers.ts";
import { AppError } from "../../lib/errors.ts";
import { systemClock } from "../../platform/clock.ts";
import { ambientEnv, type Config } from "../../platform/config/config.ts";
import { errorCode, sha256Bytes } from "../../platform/files.ts";
import { silentLog } from "../../platform/log.ts";
import { createSupervisor } from "../../platform/workers/supervisor.ts";
import {
  type DetectorContext,
  DetectorState,
  score,
  type Versions,
  versionsOf,
} from "../../resources/detection/worker.ts";
import { createConfinement } from "../../sandbox/confinement/confine.ts";
import { AUDIO_MODELS, IMAGE_MODELS, type ModelName, type Scored } from "../../workers/protocol_detector.ts";
import { type InputFile, type Kind, readContents, reasonOf } from "./files.ts";

export const AT_ONCE = 4;

export type ScoreOptions = { models: readonly ModelName[]; robustness: boolean; heatmap: boolean; signal: AbortSignal };
export type Examination = { scored: Scored; ensemble: Ensemble; hash: string; sizeBytes: number; ms: number };
export type Outcome = { file: string } & (
  | ({ status: "scored" } & Examination)
  | { status: "failed"; code: string; error: string }
  /** A file in a folder that no selected model reads. */
  | { status: "left_out" }
);
export type Detector = {
  versions: Versions;
  examine: (file: InputFile, options: ScoreOptions) => Promise<Outcome>;
  close: () => Promise<void>;
};

/** `features`: use the models as shipped, and add evidence for an adaptation to each answer. */
export async function openDetector(config: Config, { features = false } = {}): Promise<Detector> {
  const dir = mkdtempSync(join(tmpdir(), "verk-detect-"));
  const closing = new AbortController();
  const dataDir = isOwn(config.data_dir) ? config.data_dir : dir;
  const supervisor = createSupervisor({
    log: silentLog,
    clock: systemClock,
    socketDir: join(dir, "run"),
    confine: createConfinement({ dataDir, require: config.sandbox.require }),
    env: ambientEnv(),
    ...config.workers,
  });
  const detect = { ...config.detect, parallel: AT_ONCE };
  const room: DetectorContext = {
    config: { ...config, data_dir: dataDir, detect },
    clock: systemClock,
    log: silentLog,
    supervisor,
    closing: closing.signal,
    state: { detection: { detector: new DetectorState({ ...detect, features }) } },
  };
  const close = async () => {
    closing.abort();
    await supervisor.stopAll("the command has ended");
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    return { versions: await versionsOf(room), examine: (file, options) => examine(room, file, options), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Libraries are unpacked only into a directory of this user: in another one they would have the wrong owner. */
function isOwn(dir: string): boolean {
  const stat = statSync(dir, { throwIfNoEntry: false });
  return stat?.isDirectory() === true && stat.uid === process.getuid?.() && (stat.mode & 0o300) === 0o300;
}

const FORMATS = "The format is not supported. Supported are JPEG, PNG, WebP and GIF images and WAV, FLAC and MP3 audio";
/** Error codes that concern one file. Any other error would repeat for the next file. */
const FILE_ERRORS: readonly string[] = ["invalid_image", "unsupported_format", "image_too_large", "all_models_failed"];

async function examine(
  room: DetectorContext,
  { path: file, named, error }: InputFile,
  options: ScoreOptions,
): Promise<Outcome> {
  const fail = (code: string, error: string): Outcome => ({ file, status: "failed", code, error });
  if (error !== undefined) return fail("UNREADABLE", error);
  try {
    options.signal.throwIfAborted();
    const contents = await readContents(file, room.config.detect.max_image_bytes);
    if (contents === "other") return named ? fail("UNSUPPORTED_FORMAT", FORMATS) : { file, status: "left_out" };
    if (contents.kind === "large")
      return fail(
        "IMAGE_TOO_LARGE",
        `The file has ${contents.size} bytes; the limit is ${room.config.detect.max_image_bytes} (detect.max_image_bytes)`,
      );
    const { kind, bytes } = contents;
    const models = options.models.filter((model) => takersOf(kind).includes(model));
    if (models.length === 0)
      return named ? fail("UNSUPPORTED_FORMAT", notTaken(kind, options.models)) : { file, status: "left_out" };
    return outcomeOf(file, await scoreBytes(room, bytes, { ...options, models }));
  } catch (error) {
    if (options.signal.aborted) throw error;
    if (error instanceof AppError && FILE_ERRORS.includes(error.code))
      return fail(error.code.toUpperCase(), error.message);
    if (error instanceof AppError || errorCode(error) === undefined) throw error;
    return fail("UNREADABLE", reasonOf(error));
  }
}

export const takersOf = (kind: Kind): readonly ModelName[] => (kind === "image" ? IMAGE_MODELS : AUDIO_MODELS);

const notTaken = (kind: Kind, models: readonly ModelName[]) =>
  `No selected model reads ${kind === "image" ? "images" : "speech"} (selected: ${models.join(", ")}). Check --models and detect.models_dir.`;

type Measured = Omit<Examination, "ensemble">;

async function scoreBytes(
  room: DetectorContext,
  bytes: Uint8Array<ArrayBuffer>,
  options: ScoreOptions,
): Promise<Measured> {
  const begun = performance.now();
  const hash = sha256Bytes(bytes);
  const scored = await score(room, { workspaceId: "", bytes, hash, ...options });
  return { scored, hash, sizeBytes: bytes.length, ms: Math.round((performance.now() - begun) * 1000) / 1000 };
}

function outcomeOf(file: string, measured: Measured): Outcome {
  const ensemble = ensembleOf(measured.scored);
  if (ensemble) return { file, status: "scored", ...measured, ensemble };
  const errors = Object.entries(measured.scored.models).map(([model, { error }]) => `${model}: ${error ?? "no score"}`);
  return {
    file,
    status: "failed",
    code: "ALL_MODELS_FAILED",
    error: `No model returned a score. ${errors.join("; ")}`,
  };
}

/**
 * The detector of the server, without the server: the same process under the same supervisor, which is started again
 * when a file breaks it. Needs no key and no data directory. Sockets are in a folder of its own: a server that starts
 * meanwhile ends whatever it finds in its data directory.
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
import { type Found, type Kind, readContents, reasonOf } from "./files.ts";

export const AT_ONCE = 4;

type Ask = { models: readonly ModelName[]; robustness: boolean; signal: AbortSignal };
export type Seen = { scored: Scored; ensemble: Ensemble; hash: string; sizeBytes: number; ms: number };
export type Outcome = { file: string } & (
  | ({ status: "scored" } & Seen)
  | { status: "failed"; code: string; error: string }
  /** In a folder, of a kind that is not asked for. */
  | { status: "left_out" }
);
export type Detector = {
  versions: Versions;
  examine: (found: Found, ask: Ask) => Promise<Outcome>;
  close: () => Promise<void>;
};

export async function openDetector(config: Config): Promise<Detector> {
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
    state: { detection: { detector: new DetectorState(detect) } },
  };
  const close = async () => {
    closing.abort();
    await supervisor.stopAll("nobody needs it");
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    return { versions: await versionsOf(room), examine: (found, ask) => examine(room, found, ask), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Libraries are unpacked there. In somebody else's directory they would be ours, and in its owner's way. */
function isOwn(dir: string): boolean {
  const stat = statSync(dir, { throwIfNoEntry: false });
  return stat?.isDirectory() === true && stat.uid === process.getuid?.() && (stat.mode & 0o300) === 0o300;
}

const READ_HERE = "JPEG, PNG, WebP and GIF images and WAV, FLAC and MP3 clips are read";
/** Anything else is not the file's fault, and would be the same for the next one. */
const OF_FILES: readonly string[] = ["invalid_image", "unsupported_format", "image_too_large", "all_models_failed"];

async function examine(room: DetectorContext, { path: file, named, error }: Found, ask: Ask): Promise<Outcome> {
  const fail = (code: string, error: string): Outcome => ({ file, status: "failed", code, error });
  if (error !== undefined) return fail("UNREADABLE", error);
  try {
    ask.signal.throwIfAborted();
    const contents = await readContents(file, room.config.detect.max_image_bytes);
    if (contents === "other") return named ? fail("UNSUPPORTED_FORMAT", READ_HERE) : { file, status: "left_out" };
    if (contents.kind === "large")
      return fail("IMAGE_TOO_LARGE", `${contents.size} bytes are more than ${room.config.detect.max_image_bytes}`);
    const { kind, bytes } = contents;
    const models = ask.models.filter((model) => takersOf(kind).includes(model));
    if (models.length === 0)
      return named ? fail("UNSUPPORTED_FORMAT", notTaken(kind, ask.models)) : { file, status: "left_out" };
    return outcomeOf(file, await look(room, bytes, { ...ask, models }));
  } catch (error) {
    if (ask.signal.aborted) throw error;
    if (error instanceof AppError && OF_FILES.includes(error.code))
      return fail(error.code.toUpperCase(), error.message);
    if (error instanceof AppError || errorCode(error) === undefined) throw error;
    return fail("UNREADABLE", reasonOf(error));
  }
}

export const takersOf = (kind: Kind): readonly ModelName[] => (kind === "image" ? IMAGE_MODELS : AUDIO_MODELS);

const notTaken = (kind: Kind, models: readonly ModelName[]) =>
  `${models.join(", ")} ${models.length > 1 ? "do" : "does"} not take ${kind === "image" ? "images" : "speech"}, and no other model is asked: look at --models and detect.models_dir`;

type Looked = Omit<Seen, "ensemble">;

async function look(room: DetectorContext, bytes: Uint8Array<ArrayBuffer>, ask: Ask): Promise<Looked> {
  const begun = performance.now();
  const hash = sha256Bytes(bytes);
  const scored = await score(room, { workspaceId: "", bytes, hash, ...ask });
  return { scored, hash, sizeBytes: bytes.length, ms: Math.round((performance.now() - begun) * 1000) / 1000 };
}

function outcomeOf(file: string, looked: Looked): Outcome {
  const ensemble = ensembleOf(looked.scored.models);
  if (ensemble) return { file, status: "scored", ...looked, ensemble };
  const told = Object.entries(looked.scored.models).map(([model, { error }]) => `${model}: ${error ?? "no score"}`);
  return { file, status: "failed", code: "ALL_MODELS_FAILED", error: `No model gave a score. ${told.join("; ")}` };
}

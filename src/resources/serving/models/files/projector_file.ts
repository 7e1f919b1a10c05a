/** Imports the projector of a model (mmproj), and finds one in a folder. The file gets its name only when it is complete. */
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError } from "../../../../lib/errors.ts";
import { GgufError } from "../../../../lib/gguf/parse.ts";
import { splitOf } from "../../../../lib/gguf/parts.ts";
import { readHeader } from "../../../../lib/gguf/read.ts";
import { describeProjector, type Projector } from "../../../../lib/vision/projector.ts";
import { errorCode, readInto, syncDir } from "../../../../platform/files.ts";
import type { ModelShape } from "../../../../workers/protocol.ts";
import { projectorPath } from "../projector.ts";
import { copyTo, targetOf } from "./import.ts";

export type ProjectorSource = { path: string; handle: FileHandle; size: number; projector: Projector };

const refuse = (message: string, cause?: unknown) => new AppError("invalid_request", message, { cause });

/** Opens the file and checks that it fits the model. The caller closes the handle. */
export async function openProjector(path: string, model: ModelShape): Promise<ProjectorSource> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error) => {
    const why = errorCode(error) === "ENOENT" ? "there is no such file" : (error as Error).message;
    throw refuse(`--mmproj: ${path}: ${why}`, error);
  });
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw refuse(`--mmproj: ${path} is not a file`);
    const header = await readHeader((into, at) => readInto(handle, into, at), stats.size);
    const projector = describeProjector(header);
    if (model.type === "adapter") throw refuse("--mmproj: an adapter has no projector. Import it with its base model");
    if (projector.outputs !== model.embedding_length)
      throw refuse(
        `--mmproj: ${path} is for models with embeddings of ${projector.outputs} numbers, but this model's have ${model.embedding_length}`,
      );
    return { path, handle, size: stats.size, projector };
  } catch (error) {
    await handle.close();
    throw error instanceof GgufError ? refuse(`--mmproj: ${path}: ${error.message}`, error) : error;
  }
}

/** Copies the projector beside the model of this name. Without one, that of an earlier model is removed. */
export async function placeProjector(dataDir: string, name: string, source: ProjectorSource | undefined) {
  const target = join(dataDir, projectorPath(targetOf(name)));
  if (source) {
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    await copyTo(dataDir, source, target, { name });
  } else if (await stat(target).catch(() => undefined)) {
    await rm(target, { force: true });
    await syncDir(dirname(target));
  }
}

const isGguf = (name: string) => /\.gguf$/i.test(name) && !name.startsWith(".");
const isNamedProjector = (name: string) => /mmproj/i.test(name);

/** The GGUF files of a folder: its model, if it is one file, and its projector. `path` itself if it is no folder. */
export async function ggufsAt(path: string): Promise<{ model: string; projector?: string }> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isDirectory()) return { model: path };
  const names = (await readdir(path)).filter(isGguf);
  const projectors = names.filter(isNamedProjector);
  const models = names.filter((name) => !isNamedProjector(name));
  if (projectors.length > 1)
    throw refuse(
      `${path} has ${projectors.length} projectors (${projectors.sort().join(", ")}). Choose one with --mmproj FILE`,
    );
  const [model] = models;
  const isOne = models.length === 1 && model !== undefined && !splitOf(model);
  const projector = projectors[0] && join(path, projectors[0]);
  return { model: isOne && projector ? join(path, model) : path, ...(projector ? { projector } : {}) };
}

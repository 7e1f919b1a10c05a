/** The two kinds of import: a GGUF file is copied; a Hugging Face folder is converted, and a split GGUF file joined. */
import { open } from "node:fs/promises";
import { QUANTIZATIONS } from "../../lib/checkpoints/mix.ts";
import { UsageError } from "../../lib/errors.ts";
import { UNCOUNTED } from "../../platform/files.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import type { Checkpoint } from "../../resources/serving/models/files/checkpoint.ts";
import type { ImportedFile } from "../../resources/serving/models/files/import.ts";
import type { ModelShape } from "../../workers/protocol.ts";
import type { Progress } from "../progress.ts";
import { settingsOf } from "../settings.ts";

export type Importing = {
  where: { data?: string | undefined; config?: string | undefined };
  name: string;
  base: string | undefined;
  move: boolean | undefined;
  replace: boolean | undefined;
  /** The model's projector for images. */
  projector: string | undefined;
  progress: Progress;
};
type Imported = { copy: ImportedFile; shape: ModelShape };

export async function importFile(path: string, importing: Importing, quantize: string | undefined): Promise<Imported> {
  refuseQuantize(quantize);
  const { baseIn, imports, offline } = await import("../offline.ts");
  const { name, base, move = false, replace = false, progress, where } = importing;
  // Opened as the calling user, before root switches to the owner of the data directory.
  const source = await imports.openSource(path);
  try {
    const settings = settingsOf(where);
    becomeOwnerOf(settings.data_dir);
    if (base !== undefined) await offline(settings, (ctx) => baseIn(ctx, source.shape, base)); // before anything is copied
    const onProgress = (fraction: number) => progress.show("copying", fraction);
    await withProjector(settings.data_dir, source.shape, importing);
    const copy = await imports.place(settings.data_dir, source, { name, move, replace, onProgress });
    return { copy, shape: source.shape };
  } finally {
    await source.handle.close();
  }
}

/** The projector comes before its model: a model that is there has what belongs to it. */
async function withProjector(dataDir: string, shape: ModelShape, { name, replace = false, projector }: Importing) {
  const { imports, projectors } = await import("../offline.ts");
  const source = projector === undefined ? undefined : await projectors.openProjector(projector, shape);
  try {
    await imports.requireFree(dataDir, { name, replace });
    await projectors.placeProjector(dataDir, name, source);
  } finally {
    await source?.handle.close();
  }
}

function refuseQuantize(quantize: string | undefined) {
  if (quantize !== undefined)
    throw new UsageError("--quantize is for a Hugging Face folder: a GGUF file keeps its type");
}

/** The folder or the parts stay. The new file gets its name only when it is complete. */
export async function importFolder(
  checkpoint: Checkpoint,
  importing: Importing,
  quantize: string | undefined,
): Promise<Imported> {
  const { name, replace = false, progress, where } = importing;
  const isFolder = checkpoint.kind === "folder";
  if (importing.base !== undefined) throw new UsageError("--base is for adapters, but this is a whole model");
  if (importing.move)
    throw new UsageError(
      `--move is for a single file: ${isFolder ? "a folder is converted" : "parts are joined"}, and you may remove ${isFolder ? "it" : "them"} afterwards`,
    );
  if (!isFolder) refuseQuantize(quantize);
  const type = QUANTIZATIONS.find((each) => each === quantize?.toUpperCase());
  if (quantize !== undefined && type === undefined)
    throw new UsageError(`--quantize is ${quantize}. Use one of: ${QUANTIZATIONS.join(", ")}`);
  const { converted, imports, offline, withWorkers } = await import("../offline.ts");
  const settings = settingsOf(where);
  await offline(settings, () => {}, { create: true });
  const dataDir = settings.data_dir;
  await imports.requireFree(dataDir, { name, replace });
  return await withWorkers(settings, (supervisor) => {
    const onProgress = (fraction: number) => progress.show(isFolder ? "converting" : "joining", fraction);
    return converted(
      { supervisor, dataDir },
      { checkpoint, name, quantize: type, onProgress, meter: UNCOUNTED },
      async (result) => {
        if (!result.ok) throw new UsageError(`${checkpoint.dir} cannot be imported: ${result.error}`, 1);
        const { path, shape, sizeBytes: size, sha256 } = result;
        const handle = await open(path);
        try {
          await withProjector(dataDir, shape, importing);
          const copy = await imports.place(
            dataDir,
            { path, handle, size, shape, sha256 },
            { name, move: true, replace },
          );
          return { copy, shape };
        } finally {
          await handle.close();
        }
      },
    );
  });
}

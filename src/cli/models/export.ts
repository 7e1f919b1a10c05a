import { mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { formatBytes } from "../../lib/bytes.ts";
import { UsageError } from "../../lib/errors.ts";
import { errorCode } from "../../platform/files.ts";
import { command, EXIT } from "../args.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, print, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { settingsOf } from "../settings.ts";
import { MODEL_FLAGS } from "./show.ts";

export const exportModel = command({
  summary:
    "Export a model as a Hugging Face folder: config, tokenizer and safetensors; works with and without a running server",
  takes: ["model"],
  flags: {
    ...MODEL_FLAGS,
    out: { type: "string", value: "DIR", short: "o", doc: "Folder to write (default: the name of the model)" },
  },
  examples: ["verk models export verk-tiny -o ./verk-tiny"],
  exits: {
    1: "failed: there is no such model, or it has no Hugging Face form",
    [INTERRUPTED]: "interrupted: DIR was not written",
  },
  async run({ workspace, json, out, ...where }, name = "") {
    const {
      DEFAULT_WORKSPACE,
      exportFolder,
      models,
      mustFindWorkspace,
      offline,
      presentModel,
      weightsFor,
      withWorkers,
    } = await import("../offline.ts");
    const settings = settingsOf(where);
    const { row, path } = await offline(settings, (ctx) => {
      const { id } = mustFindWorkspace(ctx, workspace ?? DEFAULT_WORKSPACE);
      const model = models.mustGet(ctx, id, name);
      return { row: model, path: models.pathOf(ctx, model) };
    });
    if (row.status !== "ready") throw new UsageError(`${row.name} is ${row.status}: it has no file to export.`, 1);
    if (presentModel(row).type === "adapter")
      throw new UsageError(
        `${row.name} is an adapter: export the job that made it with \`verk jobs model JOB --variant huggingface -o FILE\`.`,
        1,
      );
    const dir = resolve(out ?? basename(row.name.replace(/:.*$/, "")));
    await requireEmpty(dir);
    return await interruptible(async (signal) => {
      const progress = createProgress();
      const onProgress = (fraction: number) => progress.show("writing", fraction);
      const { quantization } = row;
      const temp = await mkdtemp(join(dirname(dir), ".verk-tmp-")).catch((error) => {
        throw new UsageError(`--out: ${dirname(dir)} cannot be written (${errorCode(error)}).`, 1);
      });
      try {
        const wanted = { dataDir: settings.data_dir, path, quantization, out: temp, onProgress, signal };
        await withWorkers(settings, (supervisor) => exportFolder(supervisor, wanted)).catch((error) => {
          throw signal.aborted ? error : new UsageError((error as Error).message, 1);
        });
        await rename(temp, dir);
      } finally {
        progress.end();
        await rm(temp, { recursive: true, force: true });
      }
      const weights = weightsFor(quantization);
      const bytes = await sizeOf(dir);
      if (json) printJson({ model: row.name, path: dir, weights, size_bytes: bytes });
      else {
        print(dir);
        const from = weights === quantization ? "" : `, from ${quantization}`;
        note(`${row.name}: safetensors in ${weights}${from}, ${formatBytes(bytes)}.`);
      }
      return EXIT.ok;
    });
  },
});

async function requireEmpty(dir: string) {
  const names = await readdir(dir).catch((error) => {
    if (errorCode(error) === "ENOENT") return [];
    throw new UsageError(`--out: ${dir} is not a folder that can be written (${errorCode(error)}).`);
  });
  if (names.length > 0) throw new UsageError(`--out: ${dir} is not empty. Choose another folder.`);
}

async function sizeOf(dir: string): Promise<number> {
  const sizes = await Promise.all((await readdir(dir)).map(async (name) => (await stat(join(dir, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

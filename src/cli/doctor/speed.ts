/** `verk doctor --speed`: how fast each decoder is with a model on this machine. The result decides what `auto` means. */
import { Database } from "bun:sqlite";
import { existsSync, rmSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import tiny from "../../../models/verk-tiny/verk-tiny.gguf" with { type: "file" };
import { UsageError } from "../../lib/errors.ts";
import {
  type Measured,
  ratioOf,
  SPEEDS_FILE,
  type Speed,
  Speeds,
  withMeasured,
} from "../../lib/serving/measured_speed.ts";
import { SpeedReport, type SpeedTask } from "../../lib/serving/speed_task.ts";
import { isoTime } from "../../lib/time.ts";
import { VERSION } from "../../lib/version.ts";
import type { Config } from "../../platform/config/config.ts";
import { readJson, sha256Bytes, writeFileAtomic } from "../../platform/files.ts";
import { findGpus } from "../../platform/machine/gpu_presence.ts";
import { self } from "../../platform/workers/self.ts";

const BUILTIN = "verk-tiny";
const MOST_MS = 30 * 60_000; // a large model from a slow disk, twice
const ANY_PARALLEL = 256;

type Model = { name: string; path: string; sha256: string; isCopy?: boolean };

export type SpeedResult = {
  model: string;
  /** Null: there is none, so nothing is chosen and nothing is kept. */
  gpu: string | null;
  own: Speed | null;
  library: Speed | null;
  /** Why a decoder was not measured. */
  errors: string[];
  /** Above 1: our kernels are faster. */
  ratio: number | null;
};

/** `dir`: the data directory, or a temporary one. */
export async function measureSpeed(config: Config, dir: string, wanted: string): Promise<SpeedResult> {
  const model = modelOf(config, wanted) ?? (await builtin(dir, wanted));
  const [card] = (await findGpus()).cards;
  const task = {
    data_dir: dir,
    model_path: model.path,
    threads: config.serving.threads || availableParallelism(),
    gpus: card ? [card.index] : [],
  };
  let library: SpeedReport;
  let own: SpeedReport | null;
  try {
    library = await measure({ ...task, decoder: "library" });
    own = card ? await measure({ ...task, decoder: "own" }) : null;
  } finally {
    if (model.isCopy) rmSync(model.path, { force: true });
  }
  const speedOf = (report: SpeedReport | null) => (report?.ok ? report.speed : null);
  const result = { model: model.name, gpu: card?.name ?? null, own: speedOf(own), library: speedOf(library) };
  const errors = [library, own].flatMap((report) => (report && !report.ok ? [report.error] : []));
  if (!result.own || !result.library || !card) return { ...result, errors, ratio: null };
  const { own: ours, library: theirs } = result;
  await keep(dir, {
    gpu: card.name,
    sha256: model.sha256,
    verk: VERSION,
    measured_at: isoTime(Date.now()),
    own: ours,
    library: theirs,
  });
  return { ...result, errors, ratio: ratioOf(ours, theirs, ANY_PARALLEL) };
}

async function keep(dir: string, measured: Measured) {
  const path = join(dir, SPEEDS_FILE);
  const before = await readJson(path, Speeds).catch(() => undefined); // a damaged file is replaced: it holds hints alone
  await writeFileAtomic(path, `${JSON.stringify(withMeasured(before ?? { measured: [] }, measured), null, 2)}\n`);
}

/** A model whose file a server has checked: none other is opened here. */
function modelOf(config: Config, wanted: string): Model | undefined {
  const path = join(config.data_dir, "verk.db");
  if (!existsSync(path)) return undefined;
  const db = new Database(path, { readonly: true });
  try {
    db.run(`PRAGMA busy_timeout = ${config.db.busy_timeout_ms}`);
    const rows = db
      .query<Model & { size: number | null }, [string, string]>(
        `SELECT DISTINCT name, path, sha256, size_bytes AS size FROM models
         WHERE (name = ? OR id = ?) AND status = 'ready' AND format = 'gguf' AND path IS NOT NULL AND sha256 IS NOT NULL`,
      )
      .all(wanted, wanted);
    const [row] = rows;
    if (rows.length > 1) throw new UsageError(`${rows.length} workspaces have a model ${wanted}. Give its id`);
    if (!row) return undefined;
    const file = join(config.data_dir, row.path);
    const stats = statSync(file, { throwIfNoEntry: false });
    if (!stats) return undefined;
    if (row.size !== null && stats.size !== row.size)
      throw new UsageError(`The file of ${row.name} has changed since it was checked. Import it again`);
    return { name: row.name, path: file, sha256: row.sha256 };
  } finally {
    db.close();
  }
}

async function builtin(dir: string, wanted: string): Promise<Model> {
  if (wanted !== BUILTIN)
    throw new UsageError(`There is no model ${wanted} with a file here. verk models list shows what there is`);
  const bytes = await Bun.file(tiny).bytes();
  const path = join(dir, `.${BUILTIN}-speed.gguf`);
  await writeFileAtomic(path, bytes);
  return { name: BUILTIN, path, sha256: sha256Bytes(bytes), isCopy: true };
}

async function measure(task: SpeedTask): Promise<SpeedReport> {
  const child = Bun.spawn(self("worker", "speed"), {
    stdin: new Blob([JSON.stringify(task)]),
    stdout: "pipe",
    stderr: "pipe",
    killSignal: "SIGKILL",
    timeout: MOST_MS,
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  const line = out.trim().split("\n").at(-1) ?? "";
  if (line.startsWith("{")) return SpeedReport.parse(JSON.parse(line));
  const end = child.signalCode ? `ended by ${child.signalCode}` : `ended with exit code ${child.exitCode}`;
  return { ok: false, error: `${task.decoder}: ${end}${err.trim() ? `: ${err.trim().slice(-500)}` : ""}` };
}

import { join } from "node:path";

/**
 * The environment of a worker: a few names of the server's own, so that no key of the operator reaches a process that
 * runs foreign code, and switches that keep native libraries quiet.
 */
const PASSED = /^(PATH|LANG|LC_\w+|TZ|LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|HIP_\w+|ROCR_\w+|HSA_\w+|OMP_\w+)$/;

const QUIET = {
  ORT_DISABLE_TELEMETRY: "1", // onnxruntime reads it with getenv: it must be there from the start
  DO_NOT_TRACK: "1",
  BUN_ENABLE_CRASH_REPORTING: "0", // no crash report of the runtime, whatever a later version does by itself
};

/** `dir`: of all workers; `own`: of this one. */
type WorkerFolders = { id: string; dir: string; own: string };

export const marks = {
  /** On every process of one worker, its grandchildren included. */
  worker: (id: string) => `VERK_WORKER_ID=${id}`,
  /** On every process of every worker of one data directory. */
  dir: (dir: string) => `VERK_WORKER_DIR=${dir}`,
};

/** The folder in which the driver keeps compiled GPU kernels. Compiling takes minutes, so all workers share the folder. */
export const cudaCache = (dir: string) => join(dir, ".nv", "ComputeCache");

export function workerEnv(
  ambient: Record<string, string | undefined>,
  { id, dir, own }: WorkerFolders,
): Record<string, string> {
  const env: Record<string, string> = { PATH: "/usr/local/bin:/usr/bin:/bin", CUDA_CACHE_PATH: cudaCache(dir) };
  for (const [name, value] of Object.entries(ambient)) if (value !== undefined && PASSED.test(name)) env[name] = value;
  // Whatever native libraries write belongs into the worker's own folder, not under the operator's home.
  return { ...env, HOME: own, TMPDIR: own, ...QUIET, VERK_WORKER_ID: id, VERK_WORKER_DIR: dir };
}

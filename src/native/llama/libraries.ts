import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { explainLoad, prepare, preparedDir } from "../bundle/addon.ts";
import { compiled, groups } from "../bundle/embedded.ts";
import { platform } from "../platform/index.ts";

export type LlamaLibraries = {
  /** Contains all backends; `ggml_backend_load_all_from_path(dir)` chooses the CPU backend for this processor. */
  dir: string;
  files: { llama: string; ggml: string; ggmlBase: string };
  /** True if `dir` contains libggml-cuda.so. The driver, cudart and cuBLAS of the host decide if it loads. */
  cuda: boolean;
};

/** The CUDA set if the caller wants it and this build has one, else the CPU set. */
export function llamaLibraries(dataDir: string, want: { cuda: boolean } = { cuda: true }): LlamaLibraries {
  const cuda = want.cuda && groups["llama-cuda"] !== undefined;
  const group = cuda ? "llama-cuda" : "llama";
  prepare(group, dataDir);
  const dir = compiled
    ? join(preparedDir(group), cuda ? `${platform.name}-cuda` : platform.name)
    : join(import.meta.dir, "../../../node_modules/@node-llama-cpp", platform.name, "bins", platform.name);
  const entries = readdirSync(dir);
  const find = (pattern: RegExp) => {
    const name = entries.find((entry) => pattern.test(entry));
    if (!name) throw new Error(`no file like ${pattern} in ${dir}`);
    return join(dir, name);
  };
  return {
    dir,
    files: {
      llama: find(/^libllama(\.cuda)?\.v.*\.so$/),
      ggml: find(/^libggml(\.cuda)?\.v.*\.so$/),
      ggmlBase: find(/^libggml-base\.so$/),
    },
    cuda: existsSync(join(dir, "libggml-cuda.so")),
  };
}

/** Wraps a function that binds libraries: it runs once per thread and set of libraries. */
export function openOnce<T>(bind: (dataDir: string, libraries: LlamaLibraries) => T) {
  const opened = new Map<string, T>();
  return (dataDir: string, want: { cuda: boolean }): T => {
    const key = `${dataDir}\0${want.cuda}`;
    const existing = opened.get(key);
    if (existing) return existing;
    const libraries = llamaLibraries(dataDir, want);
    try {
      const bound = bind(dataDir, libraries);
      opened.set(key, bound);
      return bound;
    } catch (error) {
      throw explainLoad(error, libraries.dir);
    }
  };
}

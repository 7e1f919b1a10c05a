import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { prepare, preparedDir } from "../bundle/addon.ts";
import { compiled, groups } from "../bundle/embedded.ts";
import { platform } from "../platform/index.ts";

export type LlamaLibraries = {
  /** Holds every backend; `ggml_backend_load_all_from_path(dir)` picks the CPU one that fits the processor. */
  dir: string;
  files: { llama: string; ggml: string; ggmlBase: string };
  /** Whether libggml-cuda.so lies in `dir`. Whether it loads depends on the host: driver, cudart, cuBLAS. */
  cuda: boolean;
};

/** The CUDA set when this build has one and it is not declined, else the CPU set. */
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

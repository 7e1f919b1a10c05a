/**
 * The rewritten loaders of the native packages call this module in the executable (`scripts/bundle/rewrites.ts`). They
 * run during the import of their package, so the group must be prepared before.
 */
import { dlopen } from "bun:ffi";
import { join } from "node:path";
import { errorText } from "../../lib/error_text.ts";
import { UsageError } from "../../lib/errors.ts";
import { compiled } from "./embedded.ts";
import { ensureGroup } from "./extract.ts";

const prepared = new Map<string, string>();

/** Extracts `group` before its package is imported. Uncompiled, packages find their own files in node_modules. */
export function prepare(group: string, dataDir: string) {
  if (!compiled || prepared.has(group)) return;
  ensureCxxRuntime(dataDir);
  prepared.set(group, ensureGroup(group, dataDir));
}

export function preparedDir(group: string): string {
  const dir = prepared.get(group);
  if (dir === undefined) throw new Error(`the ${group} libraries were asked for before prepare("${group}")`);
  return dir;
}

export function loadAddon(group: string, rel: string): unknown {
  const dir = preparedDir(group);
  const module = { exports: {} };
  try {
    process.dlopen(module, join(dir, rel));
  } catch (error) {
    throw explainLoad(error, dir);
  }
  return module.exports;
}

/**
 * Every native library needs the C++ runtime, which a minimal host may lack. Any loaded library with the same SONAME
 * satisfies a NEEDED entry, so it is enough to load our copy first. The copy of the host is preferred if it exists.
 */
function ensureCxxRuntime(dataDir: string) {
  if (!compiled || prepared.has("cxx")) return;
  const libraries = { "libgcc_s.so.1": "_Unwind_Backtrace", "libstdc++.so.6": "__cxa_throw" };
  for (const [file, symbol] of Object.entries(libraries)) {
    const load = (path: string) => dlopen(path, { [symbol]: { args: [], returns: "void" } });
    try {
      load(file);
    } catch {
      load(join(ensureGroup("cxx", dataDir), file));
    }
  }
  prepared.set("cxx", dataDir);
}

export function explainLoad(error: unknown, dir: string): unknown {
  const message = errorText(error);
  if (message.includes("failed to map segment")) {
    const fix = `is on a file system mounted noexec; choose another data directory with --data`;
    return new UsageError(`Cannot load native libraries: ${dir} ${fix}.`, 1, { cause: error });
  }
  if (/GLIBC(XX)?_[\d.]+' not found/.test(message)) {
    const fix = "this host's C library is older than glibc 2.34; use Debian 12, Ubuntu 22.04, RHEL 9 or newer";
    return new UsageError(`Cannot load native libraries: ${fix}.`, 1, { cause: error });
  }
  return error;
}

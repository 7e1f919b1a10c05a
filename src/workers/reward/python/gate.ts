/**
 * The wall around Python. A wasm module reaches the outside only through its imports, so each of them is wrapped. After
 * the lock only a short list still works: the in-memory file system, the clock, and memory growth. Every attempt (js,
 * ctypes, os.system, sockets, objects found through gc) ends here.
 */
import { Violation } from "../interpreter.ts";

/** Imports that the interpreter needs to run code; the rest of about 270 is forbidden. */
// biome-ignore format: a table should look like one
const OPEN = new Set([
  "environ_sizes_get", "environ_get", "clock_res_get", "clock_time_get", "random_get",
  "fd_close", "fd_read", "fd_write", "fd_seek", "fd_pread", "fd_pwrite", "fd_sync", "fd_fdstat_get",
  "__syscall_openat", "__syscall_stat64", "__syscall_lstat64", "__syscall_fstat64", "__syscall_newfstatat",
  "__syscall_faccessat", "__syscall_getcwd", "__syscall_chdir", "__syscall_getdents64", "__syscall_readlinkat",
  "__syscall_unlinkat", "__syscall_rmdir", "__syscall_renameat", "__syscall_mkdirat", "__syscall_ftruncate64",
  "__syscall_fcntl64", "_try_fcntl64", "__syscall_ioctl", "__syscall_dup", "__syscall_umask_js",
  "__syscall_getuid32_js", "emscripten_date_now", "emscripten_get_now", "_tzset_js", "_timegm_js", "_mktime_js",
  "_localtime_js", "_gmtime_js", "emscripten_resize_heap", "emscripten_get_heap_max", "_PyEM_TrampolineCall_JS",
  "_Py_emscripten_runtime", "_Py_CheckEmscriptenSignals_Helper",
]);
const RETURNS_ERRNO = /^(__syscall_|_maybe_|_try_)/;
const EPERM = -63; // error number of WASI
const EAI_FAIL = -4;

type Import = (...args: number[]) => unknown;
export type Imports = Record<string, Record<string, unknown>>;

export type Gate = {
  /** Cannot be undone: code that runs from now on is untrusted. */
  lock: () => void;
};

/** Wraps the imports in place. `maxHeapBytes` limits the module's memory from now on. */
export function gate(imports: Imports, maxHeapBytes: number): Gate {
  let locked = false;
  const special: Record<string, (original: Import) => Import> = {
    emscripten_resize_heap: (grow) => (bytes) => ((bytes ?? 0) >>> 0 > maxHeapBytes ? 0 : grow(bytes ?? 0)),
    emscripten_get_heap_max: () => () => maxHeapBytes,
    _emscripten_system: (original) => refusing(original, () => EPERM),
    can_run_sync_js: (original) => refusing(original, () => 0), // time.sleep then waits by itself
    getaddrinfo: (original) => refusing(original, () => EAI_FAIL),
  };
  const refusing = (original: Import, refuse: () => unknown): Import =>
    function (this: unknown, ...args) {
      return locked ? refuse() : original.apply(this, args);
    };
  const wrap = (name: string, original: Import): Import => {
    const particular = Object.hasOwn(special, name) ? special[name] : undefined;
    if (particular) return particular(original);
    if (OPEN.has(name)) return original;
    return refusing(original, () => {
      if (RETURNS_ERRNO.test(name)) return EPERM;
      throw new Violation(`The code used "${name}", which the sandbox forbids`);
    });
  };
  for (const module of new Set(Object.values(imports))) {
    if (Object.getPrototypeOf(module) !== Object.prototype) continue; // tables of addresses, made on demand
    for (const [name, value] of Object.entries(module)) {
      // keeps the signature
      if (typeof value === "function") module[name] = Object.assign(wrap(name, value as Import), value);
    }
  }
  return {
    lock() {
      locked = true;
    },
  };
}

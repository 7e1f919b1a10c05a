/**
 * Python's files live in the JavaScript heap, outside the module's own memory limit: they get one of their own. The
 * shapes below are those of Emscripten's in-memory file system, as far as they are needed.
 */
type Node = { contents?: { length: number } };
type MemoryFiles = Record<"expandFileStorage" | "resizeFileStorage", (node: Node, bytes: number) => void>;
export type FileSystem = {
  filesystems: { MEMFS: MemoryFiles };
  ErrnoError: new (errno: number) => Error;
  createNode: (...args: unknown[]) => unknown;
  writeFile: (path: string, content: Uint8Array | string) => void;
  readFile: (path: string) => Uint8Array;
  stat: (path: string) => { size: number };
  unlink: (path: string) => void;
};

const ENOSPC = 51; // as wasi counts

export type FileLimits = { bytes: number; nodes: number };

/** Counted from now on: what is there already belongs to the interpreter. */
export function limitFiles(fs: FileSystem, limits: FileLimits) {
  const { MEMFS } = fs.filesystems;
  let bytes = 0;
  for (const name of ["expandFileStorage", "resizeFileStorage"] as const) {
    const original = MEMFS[name];
    MEMFS[name] = (node, wanted) => {
      const before = node.contents?.length ?? 0;
      if (wanted > before && bytes + wanted - before > limits.bytes) throw new fs.ErrnoError(ENOSPC);
      original.call(MEMFS, node, wanted);
      bytes += (node.contents?.length ?? 0) - before;
    };
  }
  let nodes = 0; // never given back: names that come and go without end are no reward's business
  const create = fs.createNode;
  fs.createNode = (...args) => {
    if (++nodes > limits.nodes) throw new fs.ErrnoError(ENOSPC);
    return create.apply(fs, args);
  };
}

/**
 * Python's files are in the JavaScript heap, outside the module's memory limit, so they get their own limit. The types
 * below describe the needed parts of Emscripten's in-memory file system.
 */
type Node = { contents?: { length: number } };
type Write = (stream: { node: Node }, buffer: Uint8Array, offset: number, length: number, position: number) => number;
type MemoryFiles = {
  resizeFileStorage: (node: Node, bytes: number) => void;
  ops_table: { file: { stream: { write: Write } } };
};
export type FileSystem = {
  filesystems: { MEMFS: MemoryFiles };
  ErrnoError: new (errno: number) => Error;
  createNode: (...args: unknown[]) => Node;
  destroyNode: (node: Node) => void;
  writeFile: (path: string, content: Uint8Array | string) => void;
  readFile: (path: string) => Uint8Array;
  stat: (path: string) => { size: number };
  unlink: (path: string) => void;
};

const ENOSPC = 51; // error number of WASI

export type FileLimits = { bytes: number; nodes: number };

/**
 * Counts from now on: existing files belong to the interpreter. A file deleted while open is released too early; the
 * process's own limit bounds that. Returns a function that writes without the limits.
 */
export function limitFiles(fs: FileSystem, limits: FileLimits): (act: () => void) => void {
  const { MEMFS } = fs.filesystems;
  const counted = new WeakSet<Node>();
  let bytes = 0;
  let nodes = 0;
  let free = false;
  const counting = <T>(node: Node, wanted: number, change: () => T): T => {
    if (free || !counted.has(node)) return change();
    const before = node.contents?.length ?? 0;
    if (wanted > before && bytes + wanted - before > limits.bytes) throw new fs.ErrnoError(ENOSPC);
    const result = change();
    bytes += (node.contents?.length ?? 0) - before;
    return result;
  };
  const { resizeFileStorage } = MEMFS;
  MEMFS.resizeFileStorage = (node, size) => counting(node, size, () => resizeFileStorage.call(MEMFS, node, size));
  const { stream } = MEMFS.ops_table.file; // one table for all files, existing ones included
  const { write } = stream;
  stream.write = (...args) => counting(args[0].node, args[3] + args[4], () => write.apply(stream, args));
  const { createNode, destroyNode } = fs;
  fs.createNode = (...args) => {
    if (!free && nodes >= limits.nodes) throw new fs.ErrnoError(ENOSPC);
    const node = createNode.apply(fs, args);
    if (!free) {
      nodes++;
      counted.add(node);
    }
    return node;
  };
  fs.destroyNode = (node) => {
    if (counted.delete(node)) {
      nodes--;
      bytes -= node.contents?.length ?? 0;
    }
    destroyNode.call(fs, node);
  };
  return (act) => {
    free = true;
    try {
      act();
    } finally {
      free = false;
    }
  };
}

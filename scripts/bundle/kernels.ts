/** The compiled GPU kernels that the repository carries, and the record that says from which sources they were made. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DECODE_FILE } from "../../src/native/cuda/decode/kernels.ts";
import { KERNELS_FILE } from "../../src/native/cuda/kernels.ts";

export const KERNELS_DIR = "src/native/cuda/kernels";
export const RECORD_FILE = `${KERNELS_FILE}.sha256`;

/** A compiled file with its record beside it, the folder of its sources, and sources outside of that folder. */
type Image = { file: string; dir: string; also: readonly string[] };
const SHARED = ["device", "formats", "product", "tiles"].map((name) => `decode/${name}.cuh`);
const TRAINING: Image = { file: KERNELS_FILE, dir: KERNELS_DIR, also: SHARED };
const COMMON = ["../common.cuh", "../carried.cuh"];
const DECODING: Image = { file: DECODE_FILE, dir: join(KERNELS_DIR, "decode"), also: COMMON };

export type KernelsRecord = {
  nvcc: string;
  /** Compute capabilities without the dot: "90". */
  architectures: string[];
  /** File name → sha256: the compiled file and each source. */
  sums: Map<string, string>;
};

/** Reads the format of sha256sum, with comments that name compiler and architectures. */
export function parseRecord(text: string): KernelsRecord {
  const comment = (name: string) => new RegExp(`^# ${name}: (.+)$`, "m").exec(text)?.[1]?.trim() ?? "";
  const lines = [...text.matchAll(/^([\da-f]{64}) [ *](.+)$/gm)];
  return {
    nvcc: comment("nvcc"),
    architectures: comment("architectures").split(" ").filter(Boolean),
    sums: new Map(lines.map(([, sum = "", name = ""]) => [name, sum])),
  };
}

/** Pure: one sentence for each file that is not the recorded one. `found`: file name → sha256. */
export function recordFaults({ sums }: KernelsRecord, found: ReadonlyMap<string, string>): string[] {
  const record = sums.has(DECODE_FILE) ? `${DECODE_FILE}.sha256` : RECORD_FILE;
  const changed = [...found].filter(([name, sum]) => sums.get(name) !== sum).map(([name]) => name);
  const deleted = [...sums.keys()].filter((name) => !found.has(name));
  return [
    ...changed.map((name) => `${name} has changed since ${record} was written`),
    ...deleted.map((name) => `${name} is in ${record} but does not exist`),
  ];
}

/** `dir` holds the image's sources. */
export function readKernels(dir: string, { file, also }: Pick<Image, "file" | "also"> = TRAINING) {
  const record = join(dir, `${file}.sha256`);
  if (!existsSync(record)) throw new Error(`${record} is missing; restore it from the repository`);
  const own = readdirSync(dir).filter((name) => /\.cuh?$/.test(name) || name === file);
  const sumOf = (name: string) =>
    createHash("sha256")
      .update(readFileSync(join(dir, name)))
      .digest("hex");
  const found = new Map([...own, ...also].map((name) => [name, sumOf(name)]));
  return { record: parseRecord(readFileSync(record, "utf8")), found };
}

export type FatbinEntry = { kind: "ptx" | "machine code"; architecture: string; content: Uint8Array };

const FATBIN_MAGIC = 0xba55ed50;
const KINDS = { 1: "ptx", 2: "machine code" } as const;

/** The format of nvcc's fat binaries: a header, then one entry for each architecture. */
export function fatbinEntries(file: Uint8Array): FatbinEntry[] {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.byteLength < 16 || view.getUint32(0, true) !== FATBIN_MAGIC) throw new Error("not a fat binary of nvcc");
  const entries: FatbinEntry[] = [];
  for (let at = view.getUint16(6, true); at < file.byteLength; ) {
    const kind = KINDS[view.getUint16(at, true) as keyof typeof KINDS];
    const begin = at + view.getUint32(at + 4, true);
    const end = begin + Number(view.getBigUint64(at + 8, true));
    const architecture = String(view.getUint32(at + 28, true));
    if (kind === undefined || end > file.byteLength) throw new Error(`a damaged entry at byte ${at}`);
    entries.push({ kind, architecture, content: file.subarray(begin, end) });
    at = end;
  }
  return entries;
}

/** The compiled kernels for a build with CUDA. Throws if they were not compiled from the sources in `root`. */
export function verifiedKernels(root: string, image = TRAINING): string {
  const dir = join(root, image.dir);
  const { record, found } = readKernels(dir, image);
  const faults = recordFaults(record, found);
  const script = `scripts/build_kernels${image === DECODING ? " --decode" : ""}`;
  if (faults.length > 0)
    throw new Error(`${faults.join("; ")}; compile the kernels again with ${script}, which needs nvcc 13`);
  return join(dir, image.file);
}

/** The kernels of decoding, which a build may lack: llama.cpp decodes then. */
export function decodingKernels(root: string): string | null {
  return existsSync(join(root, DECODING.dir, DECODING.file)) ? verifiedKernels(root, DECODING) : null;
}

/** Broken files by kind. A mutant is a function of (seed, index): a finding is made again from those two numbers. */
import { gzipSync } from "node:zlib";
import sharp from "sharp";
import type { ModelName } from "../../src/workers/protocol_detector.ts";
import { tar, tarGz, zip } from "../../test/archives.ts";
import { rowsAsParquet } from "../../test/connectors/parquet_writer.ts";
import { goodFiles, hostileFile } from "../../test/detection/hostile_files.ts";
import { below, type Draw, drawFrom, MUTATIONS, pick } from "../../test/detection/mutations.ts";
import { MUTATORS, randomFrom, seeds } from "../../test/fault/gguf_mutants.ts";

export const KINDS = ["gguf", "archive", "image", "audio", "rows"] as const;
export type Kind = (typeof KINDS)[number];
/** Number of files per 100. */
export const SHARES: Readonly<Record<Kind, number>> = { gguf: 40, archive: 25, rows: 20, image: 12, audio: 3 };

export type Mutant = {
  kind: Kind;
  /** Description of the changes. */
  name: string;
  /** The file ending, by which readers choose the format. */
  ending: string;
  bytes: Uint8Array;
  models: readonly ModelName[];
};
type Maker = (seed: number) => Mutant;

const ROWS = Array.from({ length: 60 }, (_, i) =>
  JSON.stringify({ prompt: `p${i} "é", \n`, n: i, deep: { a: [i, null] } }),
);
const CSV = `prompt,n\n${Array.from({ length: 60 }, (_, i) => `"a ""${i}"", b\nc",${i}`).join("\n")}\n`;

/** Wrong numbers are a common cause of failures in binary parsers. */
function lie(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = bytes.slice();
  const view = new DataView(copy.buffer, copy.byteOffset, copy.byteLength);
  const at = below(draw, Math.max(1, copy.length - 4));
  const value = pick(draw, [0, 1, 0x7f, 0xff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff]);
  if (copy.length >= 4) view.setUint32(Math.min(at, copy.length - 4), value, draw() < 0.5);
  return copy;
}
const ALL: readonly (readonly [string, (bytes: Uint8Array, draw: Draw) => Uint8Array])[] = [
  ...Object.entries(MUTATIONS),
  ["lie", lie],
];

/** One good file, broken in one to three ways. */
function broken(kind: Kind, given: ReadonlyMap<string, Uint8Array>, models: readonly ModelName[] = []): Maker {
  // A Buffer's slice is no copy.
  const good = new Map([...given].map(([ending, bytes]) => [ending, new Uint8Array(bytes)]));
  const names = [...good.keys()];
  return (seed) => {
    const draw = drawFrom(seed);
    const ending = pick(draw, names);
    let bytes = good.get(ending) as Uint8Array;
    const done: string[] = [];
    for (let left = 1 + below(draw, 3); left > 0 && bytes.length > 8; left--) {
      const [name, mutate] = pick(draw, ALL);
      bytes = mutate(bytes, draw);
      done.push(name);
    }
    return { kind, name: `${ending} ${done.join("+")}`, ending, bytes, models };
  };
}

/** The content of an archive is broken before it is packed, or else every mutant ends at its checksum. */
function archives(): Maker {
  const entries = [
    { name: "src/", type: "5" },
    { name: "src/main.py", content: "print(1)\n".repeat(50) },
    { name: "README", content: "x".repeat(700) },
  ];
  const good = new Map<string, Uint8Array>([
    ["tar.gz", tarGz(...entries)],
    [
      "zip",
      zip(
        { name: "src/a.py", content: "print(1)".repeat(40) },
        { name: "raw", content: "y".repeat(400), stored: true },
      ),
    ],
  ]);
  const packed = broken("archive", good);
  const inside = broken("archive", new Map([["tar.gz", tar(...entries)]]));
  return (seed) => {
    if (seed % 2 === 0) return packed(seed);
    const mutant = inside(seed);
    return { ...mutant, name: `${mutant.name}, inside`, bytes: new Uint8Array(gzipSync(mutant.bytes)) };
  };
}

export async function makers(): Promise<Record<Kind, Maker>> {
  const good = await goodFiles();
  const pixels = sharp({ create: { width: 64, height: 48, channels: 3, background: "#8090a0" } });
  const others = new Map<string, Uint8Array>([
    ["tiff", new Uint8Array(await pixels.clone().tiff().toBuffer())],
    ["avif", new Uint8Array(await pixels.clone().avif().toBuffer())],
  ]);
  const odd = broken("image", others, ["detector_v0"]);
  const sounds = new Map([
    ["wav", good.wav],
    ["flac", good.flac],
    ["mp3", good.mp3],
  ]);
  const models = seeds();
  const mutators = Object.entries(MUTATORS);
  const rows = new Map<string, Uint8Array>([
    [
      "parquet",
      rowsAsParquet(
        ROWS.map((_, i) => `text ${i}`),
        { groupRows: 20, pageRows: 7 },
      ),
    ],
    ["jsonl", new TextEncoder().encode(ROWS.join("\n"))],
    ["csv", new TextEncoder().encode(CSV)],
    ["jsonl.gz", new Uint8Array(gzipSync(ROWS.join("\n")))],
  ]);
  return {
    gguf(seed) {
      const random = randomFrom(seed);
      const [name, mutate] = mutators[random(mutators.length)] as (typeof mutators)[number];
      const bytes = mutate(models[random(models.length)] as (typeof models)[number], random, models);
      return { kind: "gguf", name, ending: "gguf", bytes, models: [] };
    },
    archive: archives(),
    image(seed) {
      if (seed % 8 === 0) return odd(seed);
      const { name, bytes, models: asked } = hostileFile(good, seed);
      return { kind: "image", name, ending: "img", bytes, models: asked };
    },
    audio: broken("audio", sounds, ["detector_audio_v0"]),
    rows: broken("rows", rows),
  };
}

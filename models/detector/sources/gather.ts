/**
 * bun scripts/detector/sources/gather.ts --mirrors DIR --out DIR [--list FILE] [--excluded FILE] [--cap 400] [--only ID,…]
 * copies the files of a list of sources out of git mirrors into OUT/files and writes OUT/index.jsonl, a line a file.
 * Copies of one image are taken once over all sources. A source that has a file in OUT/sources is done; after an
 * interruption the rest is gathered. Sources without a mirror are named and left out.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import sharp from "sharp";
import { isPlain, Likenesses, likenessHash, readHash, writeHash } from "./likeness.ts";
import { isExcluded, readExcluded, readManifest, type Source } from "./manifest.ts";
import { bytesOf, entriesOf, gitDirectory } from "./mirror.ts";

export const LEAST_SIDE = 160; // pixels: a smaller image holds no crop worth learning from

export type Row = {
  sha256: string;
  file: string;
  source: string;
  path: string;
  label: string;
  family: string;
  content: string;
  width: number; // 0 for a clip
  height: number;
  likeness: string; // hex; empty for a clip
};

/** `conflicts`: copies of an image that another source gives the other label. One of the two labels is wrong. */
export type Outcome = {
  source: string;
  taken: number;
  copies: number;
  conflicts: string[];
  unreadable: number;
  small: number;
};

function writeWhole(path: string, bytes: string | Uint8Array): void {
  const temporary = `${path}.part`;
  const file = openSync(temporary, "w");
  const content = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  for (let at = 0; at < content.length; ) at += writeSync(file, content, at);
  fsyncSync(file);
  closeSync(file);
  renameSync(temporary, path);
}

const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

type Origin = { source: string; label: string };

export class Gathering {
  readonly #taken = new Map<string, Origin>();
  readonly #alike = new Likenesses<Origin>();

  constructor(
    readonly mirrors: string,
    readonly out: string,
    readonly cap: number,
  ) {
    mkdirSync(join(out, "files"), { recursive: true });
    mkdirSync(join(out, "sources"), { recursive: true });
  }

  #remember(row: Pick<Row, "sha256" | "likeness" | "source" | "label">): void {
    const known = { source: row.source, label: row.label };
    this.#taken.set(row.sha256, known);
    if (row.likeness !== "") this.#alike.add(readHash(row.likeness), known);
  }

  /** Rows of a source that was gathered before, if it was. */
  resume(source: Source): Row[] | undefined {
    const file = join(this.out, "sources", `${source.source}.jsonl`);
    if (!existsSync(file)) return undefined;
    const lines = readFileSync(file, "utf8").split("\n");
    const rows = lines.filter((line) => line !== "").map((line) => JSON.parse(line) as Row);
    for (const row of rows) this.#remember(row);
    return rows;
  }

  async take(source: Source, directory: string): Promise<{ rows: Row[]; outcome: Outcome }> {
    const outcome: Outcome = { source: source.source, taken: 0, copies: 0, conflicts: [], unreadable: 0, small: 0 };
    const rows: Row[] = [];
    for (const entry of await entriesOf(directory, source)) {
      if (rows.length >= this.cap) break;
      const bytes = await bytesOf(directory, entry.blob);
      const seen = source.content === "speech" ? { width: 0, height: 0, likeness: "" } : await inspectImage(bytes);
      if (seen === undefined) outcome.unreadable++;
      else if (source.content !== "speech" && Math.min(seen.width, seen.height) < LEAST_SIDE) outcome.small++;
      else {
        const name = sha256(bytes);
        const copy = this.#taken.get(name) ?? (seen.likeness && this.#alike.find(readHash(seen.likeness)));
        if (copy) {
          outcome.copies++;
          if (copy.label !== source.label) outcome.conflicts.push(`${entry.path} ~ ${copy.source}`);
          continue;
        }
        const { source: id, label, family, content } = source;
        const extension = /\.(\w+)$/.exec(entry.path)?.[1]?.toLowerCase() ?? "bin";
        const file = `files/${name}.${extension}`;
        const row: Row = { sha256: name, file, source: id, path: entry.path, label, family, content, ...seen };
        writeWhole(join(this.out, file), bytes);
        this.#remember(row);
        rows.push(row);
      }
    }
    outcome.taken = rows.length;
    writeWhole(
      join(this.out, "sources", `${source.source}.jsonl`),
      rows.map((row) => `${JSON.stringify(row)}\n`).join(""),
    );
    return { rows, outcome };
  }
}

/** Undefined for what is no image, or a plain surface. */
async function inspectImage(bytes: Uint8Array): Promise<Pick<Row, "width" | "height" | "likeness"> | undefined> {
  try {
    const { width = 0, height = 0 } = await sharp(bytes, { pages: 1 }).metadata();
    if (Math.min(width, height) < LEAST_SIDE) return { width, height, likeness: "" };
    const hash = await likenessHash(bytes);
    if (isPlain(hash)) return undefined;
    return { width, height, likeness: writeHash(hash) };
  } catch {
    return undefined;
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      mirrors: { type: "string" },
      out: { type: "string" },
      excluded: { type: "string", default: join(import.meta.dir, "kept_apart.txt") },
      list: { type: "string", default: join(import.meta.dir, "images.jsonl") },
      cap: { type: "string", default: "400" },
      only: { type: "string" },
    },
  });
  const { mirrors, out, excluded } = values;
  if (mirrors === undefined || out === undefined) throw new Error("--mirrors and --out are needed");
  sharp.concurrency(1);
  sharp.cache(false);
  const kept = readExcluded(excluded);
  if (kept.size === 0) throw new Error(`--excluded: ${excluded} names no repository`);
  const all = readManifest(values.list);
  const barred = all.filter((source) => isExcluded(source.repo, kept)).map((source) => source.repo);
  if (barred.length > 0) throw new Error(`kept for the independent test, take them off the list: ${barred.join(", ")}`);

  const gathering = new Gathering(mirrors, out, Number(values.cap));
  const rows: Row[] = [];
  const open = all.filter((source) => {
    const before = gathering.resume(source);
    rows.push(...(before ?? []));
    return before === undefined && (values.only?.split(",").includes(source.source) ?? true);
  });
  for (const source of open) {
    const directory = gitDirectory(mirrors, source.repo);
    if (directory === undefined) console.log(`${source.source}: no mirror of ${source.repo}`);
    else {
      const done = await gathering.take(source, directory);
      rows.push(...done.rows);
      console.log(JSON.stringify(done.outcome));
    }
  }
  writeWhole(join(out, "index.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  console.log(`${rows.length} files of ${new Set(rows.map((row) => row.source)).size} sources`);
}

if (import.meta.main) await main();

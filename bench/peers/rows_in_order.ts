/**
 * One reading in a process of its own, so that its memory is its own.
 *   build PATH ROWS   makes a file of rows
 *   live PATH ROWS    reads its rows in order, as a snapshot is read
 *   raw PATH          reads the same file from its first byte to its last
 * Prints {seconds, bytes, peakMb}; the peak is what it took beyond what the process had before.
 */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { openRows } from "../../src/platform/rows/file.ts";
import { liveBytes } from "../../src/platform/rows/live.ts";
import { rowsOf } from "../rows.ts";

const BATCH = 1000;
const READ_BYTES = 1 << 18;
const [mode, path = "", rows = "0"] = process.argv.slice(2) as ["build" | "live" | "raw", ...string[]];

function build() {
  const file = openRows(path, "build");
  for (let first = 1; first <= Number(rows); first += 100 * BATCH)
    file.transact(() => {
      for (let at = first; at < first + 100 * BATCH && at <= Number(rows); at += BATCH)
        file.append(at, [rowsOf(at, Math.min(BATCH, Number(rows) - at + 1))], [], 0);
    });
  file.close();
}

function live(): number {
  const file = openRows(path, "read");
  let bytes = 0;
  let seen = 0;
  for (const piece of liveBytes(file, Number(rows))) {
    bytes += piece.bytes.byteLength;
    seen += piece.rows;
  }
  file.close();
  if (seen !== Number(rows)) throw new Error(`${seen} rows instead of ${rows}`);
  return bytes;
}

function raw(): number {
  const fd = openSync(path, "r");
  const buffer = new Uint8Array(READ_BYTES);
  let bytes = 0;
  for (let got = readSync(fd, buffer); got > 0; got = readSync(fd, buffer)) bytes += got;
  closeSync(fd);
  return bytes;
}

const mb = (name: string) =>
  (Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024) / 1e6;

if (mode === "build") build();
else {
  const before = mb("VmRSS");
  const began = performance.now();
  const bytes = mode === "live" ? live() : raw();
  console.log(
    JSON.stringify({ seconds: (performance.now() - began) / 1000, bytes, peakMb: Math.max(0, mb("VmHWM") - before) }),
  );
}

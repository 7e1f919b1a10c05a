/**
 * The obvious implementation: a table with a row for each row, prepared statements, WAL, one transaction
 * and one flush for a thousand rows.
 *   append DB FILE   lines that are in memory already → rows; no check, no HTTP
 *   upload DB FILE   a file → lines → JSON.parse → rows
 *   export DB        rows in order → standard output
 *   serve DB         the same as upload, for bodies of NDJSON over HTTP
 * Prints the seconds it took, or its address.
 */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";

const BATCH = 1000;
const [mode, path = "", file = ""] = process.argv.slice(2) as ["append" | "upload" | "export" | "serve", ...string[]];
const db = new Database(path, { create: true, strict: true });
db.run("PRAGMA journal_mode = WAL");
db.run("PRAGMA synchronous = FULL"); // a commit is on the disk
db.run(
  "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, data TEXT NOT NULL) STRICT",
);
const insert = db.prepare("INSERT INTO rows (created_at, data) VALUES (?, ?)");
const store = db.transaction((lines: readonly string[]) => {
  const now = Date.now();
  for (const line of lines) insert.run(now, line);
});

function appendAll(lines: readonly string[]) {
  for (let at = 0; at < lines.length; at += BATCH) store.immediate(lines.slice(at, at + BATCH));
}

async function upload() {
  const decoder = new TextDecoder();
  let rest = "";
  let batch: string[] = [];
  for await (const chunk of Bun.file(file).stream()) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      JSON.parse(line);
      if (batch.push(line) < BATCH) continue;
      store.immediate(batch);
      batch = [];
    }
  }
  store.immediate(batch);
}

async function exportAll() {
  const out = Bun.stdout.writer({ highWaterMark: 1 << 16 });
  for (const { data } of db.query("SELECT data FROM rows ORDER BY id").iterate() as Iterable<{ data: string }>)
    out.write(`${data}\n`);
  await out.end();
}

async function timed(work: () => unknown) {
  const began = performance.now();
  await work();
  console.log((performance.now() - began) / 1000);
}

if (mode === "append") {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  appendAll(lines.slice(0, 10 * BATCH)); // warm-up, as in all benchmarks here
  await timed(() => appendAll(lines));
}
if (mode === "upload") await timed(upload);
if (mode === "export") await exportAll();
if (mode === "serve") {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const lines = (await request.text()).trimEnd().split("\n");
      for (const line of lines) JSON.parse(line);
      store.immediate(lines);
      return Response.json({ appended: lines.length }, { status: 201 });
    },
  });
  console.log(server.url.origin);
}

/** A program that reads the source on its standard input to the end, and reports rows, time and memory. */
import { openSource } from "../../src/workers/connector/main.ts";

const { source, credentials, network } = await Bun.stdin.json();
const task = { source, credentials, network, hub_endpoint: "", connect_ms: 10_000, statement_ms: 60_000 };
const connector = await openSource({ ...task, row_bytes: 4_000_000 });
Bun.gc(true);
const before = process.memoryUsage.rss();
const started = performance.now();
let rows = 0;
let peak = before;
for await (const { lines } of connector.rows({ signal: new AbortController().signal })) {
  rows += lines.length;
  peak = Math.max(peak, process.memoryUsage.rss());
}
console.log(JSON.stringify({ rows, ms: performance.now() - started, growthBytes: peak - before }));

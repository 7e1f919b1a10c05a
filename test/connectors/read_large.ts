/** A child of objects_kit.ts: reads the source that its standard input describes, and prints the result. */
import { objectsBy } from "./objects_by.ts";
import { calm, openSource } from "./objects_kit.ts";

const LOOK_EVERY = 5000; // in rows: each check collects garbage, so that retained memory stands out
const task = await Bun.stdin.json();
const { open } = await objectsBy(task.source.source_type);
const connector = openSource({ open, ...task }, { hubEndpoint: task.hubEndpoint ?? "" });
let rows = 0;
let looked = 0;
let first = 0;
let most = 0;
let last: string | undefined;
for await (const { lines } of connector.rows({ signal: calm() })) {
  rows += lines.length;
  last = lines.at(-1);
  if (first > 0 && rows - looked < LOOK_EVERY) continue;
  looked = rows;
  Bun.gc(true);
  const { rss } = process.memoryUsage();
  first ||= rss;
  most = Math.max(most, rss);
}
console.log(JSON.stringify({ rows, growthBytes: most - first, last }));

import { join } from "node:path";
import { loadOf, makeKey, median, pinned, type Row, remove, startPeer, startVerk, tempDir } from "./tools.ts";

const ROUNDS = 5;

/** Authenticated GET of one row, against a bare Bun.serve that returns the same bytes. */
export async function run(): Promise<Row[]> {
  const dir = tempDir();
  const verk = await startVerk(dir, pinned(0));
  const headers = { authorization: `Bearer ${await makeKey(dir)}` };
  const list = (await (await fetch(`${verk.url}/v1/workspaces`, { headers })).json()) as { data: [{ id: string }] };
  const url = `${verk.url}/v1/workspaces/${list.data[0].id}`;
  const body = await (await fetch(url, { headers })).text();
  await Bun.write(join(dir, "body.json"), body);
  const bare = await startPeer("bare.ts", [join(dir, "body.json")], pinned(0));
  // Let both compile their hot paths.
  const measure = (target: string) => loadOf({ url: target, headers, seconds: 3 }, pinned(1));
  for (const target of [bare.url, url, url]) await measure(target);
  const ours: number[] = [];
  const floor: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    floor.push((await measure(bare.url)).perSecond);
    const load = await measure(url);
    if (load.bad > 0) throw new Error(`${load.bad} requests were refused`);
    ours.push(load.perSecond);
  }
  await Promise.all([verk.stop(), bare.stop()]);
  remove(dir);
  const ratio = median(ours.map((value, i) => value / (floor[i] as number)));
  const what = `GET one row with a key: ${Math.round(median(ours))}/s against ${Math.round(median(floor))}/s bare`;
  return [
    {
      bench: "read",
      what,
      value: `${ratio.toFixed(2)}×`,
      target: "≥ 0.5×",
      ok: ratio >= 0.5,
      figure: { name: "GET one row with a key", value: median(ours), unit: "/s" },
    },
  ];
}

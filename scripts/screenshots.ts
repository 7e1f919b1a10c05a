/**
 * `bun scripts/screenshots.ts DIR`: pictures of every page of the dashboard, light and dark, desktop and phone. It needs
 * `./scripts/build` and chromium. The script starts dist/verk and fills it by the API, which takes some minutes.
 *
 * --data FOLDER  keeps the filled server there, so that the next call is quick
 * --only TEXT    only pictures whose name contains TEXT, such as `run-phone-dark`; can be repeated
 * --empty        every page of a server without anything in it
 * --readme       only the four pictures of the README and docs/dashboard.md, compressed, in docs/pictures
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import sharp from "sharp";
import { startBinary } from "../test/binary.ts";
import { type Dashboard, openDashboard, SIZES } from "../test/browser/kit.ts";
import { makeKey } from "../test/cli.ts";
import { tempDir } from "../test/harness.ts";
import { startTlsReceiver, TLS_FLAGS } from "../test/webhooks_kit.ts";
import { emptyShots, type Shot, shotsOf } from "./pictures/shots.ts";
import { fillWorld, startLiveRuns, type World } from "./pictures/world.ts";

const { values: flags, positionals } = parseArgs({
  options: {
    data: { type: "string" },
    only: { type: "string", multiple: true },
    empty: { type: "boolean" },
    readme: { type: "boolean" },
  },
  allowPositionals: true,
});
const README = ["home", "run", "playground", "detect"];
const README_SIZE = { width: 1280, height: 760 };
const HIGHEST = 2_400;
const VARIANTS = [
  ["desktop", false],
  ["desktop", true],
  ["phone", false],
  ["phone", true],
] as const;
const HOOK_PORT = 7443; // fixed: a kept server knows the address

const dir = flags.readme ? join(import.meta.dir, "../docs/pictures") : (positionals[0] ?? "screenshots");
mkdirSync(dir, { recursive: true });
const data = flags.data ?? tempDir();
mkdirSync(data, { recursive: true });
const receiver = startTlsReceiver(
  ({ path }) => new Response(path === "/broken" ? "no such host" : "ok", { status: path === "/broken" ? 502 : 200 }),
  HOOK_PORT,
);
const kept = join(data, "pictures.json");
const known = existsSync(kept) ? (JSON.parse(readFileSync(kept, "utf8")) as { key: string; world: World }) : undefined;
const key = known?.key ?? (await makeKey(data, "--scope", "admin", "--name", "Ada")).key;
const server = await startBinary({
  dir: data,
  key,
  env: {
    VERK_NETWORK__ALLOW: "127.0.0.1",
    VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"],
    VERK_GPU__CPU_SHARE: "0.05", // the least, so that the memory map shows something
    VERK_BILLING__LOCAL_RATE_USD_PER_HOUR: "1.2",
    VERK_MONITORS__INTERVAL_SECONDS: "5",
  },
});
const opened: (Dashboard | undefined)[] = [];
try {
  await main();
} finally {
  for (const page of opened) await page?.close();
  await server.kill("SIGTERM");
  await receiver.stop();
}

async function main() {
  if (flags.empty) return await take(emptyShots());
  const world = known?.world ?? (await makeWorld());
  const live = await startLiveRuns(server, world);
  const shots = shotsOf({ ...world, live: live[0] ?? "" });
  await take(shots.filter(({ isLive }) => isLive));
  for (const id of live.toReversed()) await endRun(id);
  await take(shots.filter(({ isLive }) => !isLive));
}

/** A kept server does not collect them. */
async function endRun(id: string) {
  await server.call("POST", `/v1/training_jobs/${id}/cancel`);
  while ((await server.call("DELETE", `/v1/training_jobs/${id}`)).status >= 400) await Bun.sleep(200);
}

async function makeWorld(): Promise<World> {
  const world = await fillWorld(server, receiver.url);
  writeFileSync(kept, JSON.stringify({ world, key }));
  return world;
}

async function take(shots: readonly Shot[]) {
  for (const [i, [size, dark]] of VARIANTS.entries()) {
    const variant = `${size}-${dark ? "dark" : "light"}`;
    const wanted = shots.filter(({ name }) => isWanted(name, variant));
    if (wanted.length === 0) continue;
    const page = opened[i] ?? (await openVariant(size, dark));
    opened[i] = page;
    for (const shot of wanted) {
      await page.resize(flags.readme ? README_SIZE : SIZES[size]);
      await page.at(shot.path);
      await shot.prepare?.(page);
      await settle(page);
      if (!flags.readme) await grow(page, SIZES[size].width);
      const png = await page.screenshot();
      const file = join(dir, flags.readme ? `${shot.name}.png` : `${shot.name}-${variant}.png`);
      writeFileSync(file, flags.readme ? await sharp(png).png({ palette: true, effort: 10 }).toBuffer() : png);
      console.log(file);
    }
  }
}

function isWanted(name: string, variant: string): boolean {
  if (flags.readme) return README.includes(name) && variant === "desktop-light";
  return flags.only === undefined || flags.only.some((text) => `${name}-${variant}`.includes(text));
}

async function openVariant(size: keyof typeof SIZES, dark: boolean): Promise<Dashboard> {
  const page = await openDashboard(server.url, { dark, size: SIZES[size] });
  await page.send("Emulation.setScrollbarsHidden", { hidden: true });
  await page.signIn(key);
  return page;
}

/** Makes the window as high as the page. */
async function grow(page: Dashboard, width: number) {
  const height = await page.run<number>("document.documentElement.scrollHeight");
  await page.resize({ width, height: Math.min(HIGHEST, Math.max(height, SIZES.desktop.height)) });
  await settle(page);
}

/** Waits until the page looks the same for half a second. */
async function settle(page: Dashboard) {
  const shape = "document.documentElement.scrollHeight + ' ' + document.querySelectorAll('body *').length";
  for (let last = "", same = 0, i = 0; same < 3 && i < 60; i++) {
    await Bun.sleep(160);
    const now = await page.run<string>(shape);
    same = now === last && !(await page.run<boolean>("!!document.querySelector('.skeleton')")) ? same + 1 : 0;
    last = now;
  }
}

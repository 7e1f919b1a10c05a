/**
 * `bun scripts/screenshots.ts DIR`: pictures of every page of the dashboard, light and dark, desktop and phone: full, empty,
 * failing and loading. It needs `./scripts/build` and chromium. The script starts dist/verk and fills it by the API, which
 * takes some minutes.
 *
 * --data FOLDER  keeps the filled server there, so that the next call is quick
 * --state NAME   only full, empty, failing or loading; can be repeated
 * --only TEXT    only pictures whose name contains TEXT, such as `run-phone-dark`; can be repeated
 * --sheets       also contact sheets: the pictures of one state and look on a few large ones
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
import { writeSheets } from "./pictures/sheets.ts";
import { emptyShots, pageShots, type Shot, shotsOf } from "./pictures/shots.ts";
import { fillWorld, startLiveRuns, type World } from "./pictures/world.ts";

const { values: flags, positionals } = parseArgs({
  options: {
    data: { type: "string" },
    only: { type: "string", multiple: true },
    state: { type: "string", multiple: true },
    sheets: { type: "boolean" },
    readme: { type: "boolean" },
  },
  allowPositionals: true,
});
const STATES = ["full", "empty", "failing", "loading"] as const;
type State = (typeof STATES)[number];
const README = ["home", "run", "playground", "detect"];
const README_SIZE = { width: 1280, height: 760 };
const HIGHEST = 2_400;
const SLOW_MS = 120_000; // pictures are also taken beside other work
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
const settings = {
  VERK_NETWORK__ALLOW: "127.0.0.1",
  VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"],
  VERK_GPU__CPU_SHARE: "0.05", // the least, so that the memory map shows something
  VERK_BILLING__LOCAL_RATE_USD_PER_HOUR: "1.2",
  VERK_MONITORS__INTERVAL_SECONDS: "5",
};
const server = await startBinary({ dir: data, key, env: settings });
const opened: (Dashboard | undefined)[] = [];
const taken = new Map<string, string[]>(); // files by state and look
try {
  await main();
  if (flags.sheets)
    for (const [name, files] of taken) await writeSheets(dir, name, files, name.includes("phone") ? 8 : 4);
} finally {
  for (const page of opened) await page?.close();
  await server.kill("SIGTERM");
  await receiver.stop();
}

async function main() {
  const states = flags.readme ? ["full"] : (flags.state ?? STATES);
  if (states.includes("empty")) await takeEmpty();
  if (!states.some((state) => state !== "empty")) return;
  const world = known?.world ?? (await makeWorld());
  const ofPages = pageShots(shotsOf({ ...world, live: "" }));
  for (const state of ["failing", "loading"] as const) if (states.includes(state)) await take(state, ofPages);
  if (!states.includes("full")) return;
  const live = await startLiveRuns(server, world);
  const shots = shotsOf({ ...world, live: live[0] ?? "" });
  await take(
    "full",
    shots.filter(({ isLive }) => isLive),
  );
  for (const id of live.toReversed()) await endRun(id);
  await take(
    "full",
    shots.filter(({ isLive }) => !isLive),
  );
}

async function takeEmpty() {
  const dir = tempDir();
  const { key } = await makeKey(dir, "--scope", "admin", "--name", "Ada");
  const empty = await startBinary({ dir, key, env: settings });
  await take("empty", emptyShots(), { url: empty.url, key });
  for (const page of opened.splice(0)) await page?.close();
  await empty.kill("SIGTERM");
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

async function take(state: State, shots: readonly Shot[], from = { url: server.url, key }) {
  for (const [i, [size, dark]] of VARIANTS.entries()) {
    const variant = `${size}-${dark ? "dark" : "light"}`;
    const prefix = state === "full" ? "" : `${state}_`;
    const wanted = shots.filter(({ name }) => isWanted(prefix + name, variant));
    if (wanted.length === 0) continue;
    const page = opened[i] ?? (await openVariant(size, dark, from));
    opened[i] = page;
    const trouble = state === "failing" || state === "loading" ? await withTrouble(page, state) : undefined;
    for (const shot of wanted) {
      await page.resize(flags.readme ? README_SIZE : SIZES[size]);
      if (trouble) await openTroubled(page, shot.path);
      else await page.at(shot.path, SLOW_MS);
      await shot.prepare?.(page);
      await settle(page, state === "loading");
      if (!flags.readme) await grow(page, SIZES[size].width, state === "loading");
      const png = await page.screenshot();
      const file = join(dir, flags.readme ? `${shot.name}.png` : `${prefix}${shot.name}-${variant}.png`);
      writeFileSync(file, flags.readme ? await sharp(png).png({ palette: true, effort: 10 }).toBuffer() : png);
      taken.set(`${state}-${variant}`, [...(taken.get(`${state}-${variant}`) ?? []), file]);
      console.log(file);
    }
    await trouble?.();
  }
}

/** From now on the answers of the API fail, or never come. The session is as it is. Returns how this ends. */
async function withTrouble(page: Dashboard, state: "failing" | "loading"): Promise<() => Promise<unknown>> {
  const failure = { error: { type: "server_error", code: "internal", message: "The database is busy. Try again." } };
  const answer =
    state === "loading"
      ? "new Promise(() => {})"
      : `Promise.resolve(new Response(${JSON.stringify(JSON.stringify(failure))}, { status: 500 }))`;
  const source = `{ const real = fetch;
    window.fetch = (to, more) => /^\\/(v1|api)\\/(?!browser_sessions|account|events)/.test(String(to)) ? ${answer} : real(to, more); }`;
  const made = (await page.send("Page.addScriptToEvaluateOnNewDocument", { source })) as { identifier: string };
  return () => page.send("Page.removeScriptToEvaluateOnNewDocument", made);
}

/** A page whose data never comes is never settled. */
async function openTroubled(page: Dashboard, path: string) {
  await page.send("Page.navigate", { url: page.origin + path });
  await page.waitFor(path, () =>
    page.run<boolean>(`location.pathname + location.search === ${JSON.stringify(path)} &&
    !!document.querySelector(".app h1")`),
  );
}

function isWanted(name: string, variant: string): boolean {
  if (flags.readme) return README.includes(name) && variant === "desktop-light";
  return flags.only === undefined || flags.only.some((text) => `${name}-${variant}`.includes(text));
}

async function openVariant(
  size: keyof typeof SIZES,
  dark: boolean,
  from: { url: string; key: string },
): Promise<Dashboard> {
  const page = await openDashboard(from.url, { dark, size: SIZES[size] });
  await page.send("Emulation.setScrollbarsHidden", { hidden: true });
  await page.signIn(from.key);
  return page;
}

/** Makes the window as high as the page. */
async function grow(page: Dashboard, width: number, isLoading: boolean) {
  const height = await page.run<number>("document.documentElement.scrollHeight");
  await page.resize({ width, height: Math.min(HIGHEST, Math.max(height, SIZES.desktop.height)) });
  await settle(page, isLoading);
}

/** Waits until the page looks the same for half a second. `isLoading`: grey bars stay. */
async function settle(page: Dashboard, isLoading: boolean) {
  const shape = "document.documentElement.scrollHeight + ' ' + document.querySelectorAll('body *').length";
  for (let last = "", same = 0, i = 0; same < 3 && i < 60; i++) {
    await Bun.sleep(160);
    const now = await page.run<string>(shape);
    same =
      now === last && (isLoading || !(await page.run<boolean>("!!document.querySelector('.skeleton')"))) ? same + 1 : 0;
    last = now;
  }
}

/**
 * scripts/screenshots.ts DIR [--url URL --key KEY] [PATH…]: pictures of every page of the dashboard, light and dark,
 * desktop and phone. Without --url it starts dist/verk with an empty data directory.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { PAGES } from "../src/dashboard/pages/index.ts";
import { startBinary } from "../test/binary.ts";
import { openDashboard, SIZES } from "../test/browser/kit.ts";

const { values: flags, positionals } = parseArgs({
  options: { url: { type: "string" }, key: { type: "string" } },
  allowPositionals: true,
});
const [dir = "screenshots", ...chosen] = positionals;
const paths = chosen.length > 0 ? chosen : PAGES.map(({ path }) => path).filter((path) => !path.includes(":"));
const server = flags.url === undefined ? await startBinary() : undefined;
const origin = flags.url ?? server?.url ?? "";
const key = flags.key ?? (await server?.apiKey()) ?? "";
mkdirSync(dir, { recursive: true });

for (const dark of [false, true])
  for (const name of ["desktop", "phone"] as const) {
    const page = await openDashboard(origin, { dark, size: SIZES[name] });
    await page.signIn(key);
    for (const path of paths) {
      await page.at(path);
      const file = `${path.replaceAll(/\W+/g, "_").replace(/^_|_$/g, "") || "home"}-${name}-${dark ? "dark" : "light"}.png`;
      writeFileSync(join(dir, file), await page.screenshot());
      console.log(join(dir, file));
    }
    await page.close();
  }
await server?.kill("SIGTERM");

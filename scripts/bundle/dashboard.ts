/** Bundles src/dashboard for the browser: hashed names, compressed once. The result is kept in .stage by its inputs. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Asset, Bundle } from "../../src/resources/server/dashboard/bundle.ts";
import { indexPage, referencePage } from "./dashboard_page.ts";

const SOURCES = "src/dashboard";
const DAY_MS = 86_400_000;
const TYPES: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** A file that the browser loads. `needs`: files that it imports before it runs. `isEntry`: no chunk that others share. */
type Output = { name: string; content: Uint8Array; needs: readonly string[]; isEntry: boolean };

export async function bundleDashboard(root: string): Promise<Bundle> {
  const dir = join(root, ".stage", `dashboard-${inputsOf(root)}`);
  const manifest = join(dir, "manifest.json");
  if (!existsSync(manifest)) {
    const temp = `${dir}.${process.pid}`;
    mkdirSync(temp, { recursive: true });
    await write(root, temp);
    if (existsSync(manifest)) rmSync(temp, { recursive: true });
    else renameSync(temp, dir);
    removeOld(root);
  }
  const { index, reference, assets } = JSON.parse(readFileSync(manifest, "utf8")) as Bundle;
  const here = Object.entries(assets).map(([name, asset]) => {
    const paths: Asset = { ...asset, gzip: join(dir, asset.gzip), brotli: join(dir, asset.brotli) };
    return [name, paths] as const;
  });
  return { index, reference, assets: Object.fromEntries(here) };
}

const ENTRIES = ["main.tsx", "reference/reference.tsx"];

/** Every file that the dashboard's scripts are made of, packages included. */
export async function dashboardSources(root: string): Promise<string[]> {
  const entrypoints = ENTRIES.map((file) => join(root, SOURCES, file));
  const built = await Bun.build({ entrypoints, target: "browser", metafile: true });
  return Object.keys(built.metafile?.inputs ?? {});
}

/** The module that replaces src/resources/server/dashboard/bundle.ts in the executable. */
export function bundleModule({ index, reference, assets }: Bundle): string {
  const lines: string[] = [];
  const rows = Object.entries(assets).map(([name, { type, gzip, brotli }], i) => {
    lines.push(`import gz${i} from ${JSON.stringify(gzip)} with { type: "file" };`);
    lines.push(`import br${i} from ${JSON.stringify(brotli)} with { type: "file" };`);
    return `${JSON.stringify(name)}: { type: ${JSON.stringify(type)}, gzip: gz${i}, brotli: br${i} }`;
  });
  return `${lines.join("\n")}
export const loadBundle = async () => ({
  index: ${JSON.stringify(index)},
  reference: ${JSON.stringify(reference)},
  assets: { ${rows.join(", ")} },
});
`;
}

async function write(root: string, dir: string) {
  const scripts = await bundleScripts(root);
  const style = await bundleStyle(root, dir);
  const ownStyle = await bundleSheets(dir, "reference", [join(root, SOURCES, "reference/reference.css")]);
  const icon = named("icon", "svg", readFileSync(join(root, SOURCES, "style/icon.svg")));
  const assets: Record<string, Asset> = {};
  for (const { name, content } of [...scripts, style, ownStyle, icon]) {
    writeFileSync(join(dir, `${name}.gz`), gzipSync(content, { level: 9 }));
    writeFileSync(join(dir, `${name}.br`), brotliCompressSync(content, brotli(content.byteLength)));
    assets[name] = { type: TYPES[name.split(".").at(-1) ?? ""] ?? "", gzip: `${name}.gz`, brotli: `${name}.br` };
  }
  const partsOf = (entry: string, styles: readonly Output[]) => {
    const script = scripts.find(({ name, isEntry }) => isEntry && name.startsWith(`${entry}-`));
    if (!script) throw new Error(`the bundle has no script ${entry}`);
    const preload = closureOf(script, scripts);
    return { script: script.name, preload, styles: styles.map(({ name }) => name), icon: icon.name };
  };
  const index = indexPage(partsOf("main", [style]));
  const reference = referencePage(partsOf("reference", [style, ownStyle]));
  writeFileSync(join(dir, "manifest.json"), JSON.stringify({ index, reference, assets } satisfies Bundle));
}

/** Names of all files that `main` needs before it runs. */
function closureOf(main: Output, all: readonly Output[]): string[] {
  const found = new Set<string>();
  const visit = ({ needs }: Output) => {
    for (const next of all.filter(({ name }) => needs.includes(name) && !found.has(name))) {
      found.add(next.name);
      visit(next);
    }
  };
  visit(main);
  return [...found];
}

const brotli = (bytes: number) => ({
  params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes },
});

/** Two entries, the dashboard and the API reference, share their chunks. */
async function bundleScripts(root: string): Promise<Output[]> {
  const built = await Bun.build({
    entrypoints: ENTRIES.map((file) => join(root, SOURCES, file)),
    target: "browser",
    format: "esm",
    splitting: true,
    minify: true,
    naming: { entry: "[name]-[hash].[ext]", chunk: "[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return await Promise.all(
    built.outputs.map(async (file) => {
      const text = await file.text();
      const needs = new Bun.Transpiler({ loader: "js" })
        .scanImports(text)
        .filter(({ kind }) => kind === "import-statement")
        .map(({ path }) => path.replace("./", ""));
      const isEntry = file.kind === "entry-point";
      return { name: basename(file.path), content: new TextEncoder().encode(text), needs, isEntry };
    }),
  );
}

/** One style sheet: tokens first, then the base, the kit and the shell, uPlot's own, then the pages in order of name. */
async function bundleStyle(root: string, dir: string): Promise<Output> {
  const own = ["tokens", "base", "kit", "code", "shell"].map((name) => join(root, SOURCES, "style", `${name}.css`));
  const pages = [...new Bun.Glob("pages/**/*.css").scanSync(join(root, SOURCES))].sort();
  const files = [...own, join(root, "node_modules/uplot/dist/uPlot.min.css")];
  for (const page of pages) files.push(join(root, SOURCES, page));
  return await bundleSheets(dir, "style", files);
}

async function bundleSheets(dir: string, name: string, files: readonly string[]): Promise<Output> {
  const entry = join(dir, `${name}.css`);
  writeFileSync(entry, files.map((file) => `@import ${JSON.stringify(file)};`).join("\n"));
  const built = await Bun.build({ entrypoints: [entry], minify: true });
  rmSync(entry);
  const [sheet] = built.outputs;
  if (!sheet) throw new Error(`the bundle has no style sheet ${name}`);
  return named(name, "css", new TextEncoder().encode(await sheet.text()));
}

const named = (name: string, ending: string, content: Uint8Array): Output => ({
  name: `${name}-${createHash("sha256").update(content).digest("hex").slice(0, 8)}.${ending}`,
  content,
  needs: [],
  isEntry: false,
});

/** Everything below src/dashboard and src/lib, the packages' versions and this script. */
function inputsOf(root: string): string {
  const hash = createHash("sha256").update(Bun.version);
  const files = [
    ...new Bun.Glob("src/{dashboard,lib}/**/*.{ts,tsx,css,svg}").scanSync(root),
    ...["bun.lock", "tsconfig.json", "scripts/bundle/dashboard.ts", "scripts/bundle/dashboard_page.ts"],
  ];
  for (const file of files.filter((each) => !each.endsWith(".test.ts")).sort())
    hash.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest("hex").slice(0, 16);
}

function removeOld(root: string) {
  const stage = join(root, ".stage");
  for (const name of readdirSync(stage).filter((each) => each.startsWith("dashboard-")))
    if (Date.now() - statSync(join(stage, name)).mtimeMs > DAY_MS) rmSync(join(stage, name), { recursive: true });
}

/**
 * Packages that look for their binaries beside their own source, which an executable does not have. Each is pointed at
 * src/native/bundle/addon.ts. A rewrite names a text that must be in the original: when a package changes shape, the build
 * stops instead of shipping an executable that fails at run time.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { BunPlugin } from "bun";
import type { Platform } from "../../src/native/platform/index.ts";

type Rewrite = { file: string; mustContain: string; to: (source: string) => string };

const versionOf = (modules: string, name: string): string =>
  JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8")).version;

function rewrites(modules: string, addon: string, target: Platform): Rewrite[] {
  const from = JSON.stringify(addon);
  const sharp = `"sharp", "sharp-${target.name}/lib/sharp-${target.name}-${versionOf(modules, "sharp")}.node"`;
  const ortRequire =
    "require(`../bin/napi-v6/" + "$" + "{process.platform}/" + "$" + "{process.arch}/onnxruntime_binding.node`)";
  const llamaVersion = JSON.stringify(versionOf(modules, "node-llama-cpp"));
  const release = JSON.stringify(
    JSON.parse(readFileSync(join(modules, "node-llama-cpp/llama/binariesGithubRelease.json"), "utf8")).release,
  );
  return [
    {
      file: "sharp/dist/sharp.mjs",
      mustContain: "export default sharp",
      to: () => `import { loadAddon } from ${from}; export default loadAddon(${sharp});`,
    },
    {
      file: "sharp/dist/sharp.cjs",
      mustContain: "module.exports = sharp",
      to: () => `module.exports = require(${from}).loadAddon(${sharp});`,
    },
    {
      file: "onnxruntime-node/dist/binding.js",
      mustContain: ortRequire,
      to: (source) => source.replace(ortRequire, `require(${from}).loadAddon("onnx", "onnxruntime_binding.node")`),
    },
    {
      file: "node-llama-cpp/dist/utils/getModuleVersion.js",
      mustContain: "export async function getModuleVersion()",
      to: () => `export async function getModuleVersion() { return ${llamaVersion}; }`,
    },
    {
      file: "node-llama-cpp/dist/bindings/utils/binariesGithubRelease.js",
      mustContain: "export const defaultLlamaCppRelease",
      to: () => `export async function getBinariesGithubRelease() { return ${release}; }
export async function setBinariesGithubRelease() {}
export const builtinLlamaCppRelease = ${release};
export const defaultLlamaCppRelease = ${release};`,
    },
    {
      // It forks its own source file, which does not exist here; \`verk worker probe llama\` is that test instead.
      file: "node-llama-cpp/dist/bindings/utils/testBindingBinary.js",
      mustContain: "export async function testBindingBinary(",
      to: () => "export async function testBindingBinary() { return true; }",
    },
    // The bundler would write the folder of the build into these two, so that builds in two folders would differ.
    {
      file: "pyodide/pyodide.mjs",
      mustContain: "return __dirname",
      to: (source) => source.replaceAll("__dirname", '"/"'),
    },
    {
      file: "@eshaz/web-worker/cjs/node.js",
      mustContain: "threads.Worker(__filename",
      to: (source) => source.replaceAll("__filename", '"web-worker"'),
    },
  ];
}

export type PluginOptions = {
  root: string;
  target: Platform;
  /** The generated module that replaces src/native/bundle/embedded.ts. */
  embedded: string;
  groups: readonly string[];
  /** The generated module that replaces src/resources/server/dashboard/bundle.ts. */
  dashboard: string;
  /** The generated module that replaces src/cli/licenses.ts. */
  licenses: string;
  /** Called when the module is used. */
  seen: () => void;
};

export function nativePlugin({ root, target, embedded, groups, dashboard, licenses, seen }: PluginOptions): BunPlugin {
  const modules = join(root, "node_modules");
  const addon = join(root, "src/native/bundle/addon.ts");
  const table = rewrites(modules, addon, target).map((rewrite) => {
    const source = readFileSync(join(modules, rewrite.file), "utf8");
    if (!source.includes(rewrite.mustContain)) {
      throw new Error(
        `${rewrite.file} has changed: it no longer contains ${rewrite.mustContain}. Adapt scripts/bundle/rewrites.ts`,
      );
    }
    return { path: join(modules, rewrite.file), contents: rewrite.to(source) };
  });
  const sets: Record<string, string> = { [target.name]: "llama", [`${target.name}-cuda`]: "llama-cuda" };
  const groupOf = (path: string) => groups.find((group) => group === sets[path.replace("@node-llama-cpp/", "")]);
  return {
    name: "verk-native",
    setup(build) {
      const exactly = (path: string) => new RegExp(`${path.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
      build.onLoad({ filter: exactly("/src/native/bundle/embedded.ts") }, () => {
        seen();
        return { contents: embedded, loader: "ts" };
      });
      const generated = { "/src/resources/server/dashboard/bundle.ts": dashboard, "/src/cli/licenses.ts": licenses };
      for (const [path, contents] of Object.entries(generated))
        build.onLoad({ filter: exactly(path) }, () => ({ contents, loader: "ts" }));
      for (const { path, contents } of table) {
        build.onLoad({ filter: exactly(path.slice(modules.length)) }, () => ({ contents, loader: "js" }));
      }
      build.onResolve({ filter: /^@node-llama-cpp\// }, ({ path }) => ({ path, namespace: "llama-binaries" }));
      build.onLoad({ filter: /.*/, namespace: "llama-binaries" }, ({ path }) => ({
        contents: llamaBinaries(groupOf(path), path, addon, versionOf(modules, "node-llama-cpp")),
        loader: "js",
      }));
    },
  };
}

function llamaBinaries(group: string | undefined, name: string, addon: string, version: string): string {
  if (group === undefined) return `throw new Error("${name} is not in this build");`;
  return `import { preparedDir } from ${JSON.stringify(addon)};
export const getBinsDir = () => ({ binsDir: preparedDir("${group}"), packageVersion: "${version}" });`;
}

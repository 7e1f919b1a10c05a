/**
 * scripts/build_here [--cpu]: builds dist/verk for this machine. If an NVIDIA card is found, the executable gets a CUDA
 * library: compiled for exactly this card if nvcc is installed, or the one of the npm package. If neither works, one
 * sentence explains why, and the executable is built for the CPU.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { findGpus } from "../../src/platform/machine/gpu_presence.ts";
import { afterTrouble, chooseLibrary, type Facts, parseCards, type Way } from "./choice.ts";

const root = dirname(dirname(import.meta.dir));
const systemRoot = process.env["VERK_SYSTEM_ROOT"] || "/"; // tests replace / by a directory
const scripts = join(root, "scripts");
const LIBRARY = "libggml-cuda.so";
const CARD_QUERY = "--query-gpu=name,driver_version,compute_cap";

const { values: flags } = parseArgs({ options: { cpu: { type: "boolean", default: false } } });

async function lookAround(): Promise<Facts> {
  const { hasTool, signs } = await findGpus({ root: systemRoot });
  const query = hasTool
    ? Bun.spawnSync(["nvidia-smi", CARD_QUERY, "--format=csv,noheader"], { stderr: "ignore" })
    : null;
  const nvcc = Bun.spawnSync([join(scripts, "cuda/nvcc")]);
  const prebuilt = join(root, "node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda");
  return {
    cards: query?.success ? parseCards(query.stdout.toString()) : [],
    hasTool,
    signs,
    nvccTrouble: nvcc.success ? null : (nvcc.stderr.toString().trim().split(";")[0] ?? "nvcc is not installed"),
    prebuilt: existsSync(join(prebuilt, LIBRARY)) ? prebuilt : null,
  };
}

/** The compiled library is stored by release of llama.cpp and by architecture, so that it is compiled once. */
function compiledDir(architectures: string): string {
  const file = join(root, "node_modules/node-llama-cpp/llama/binariesGithubRelease.json");
  const { release } = JSON.parse(readFileSync(file, "utf8")) as { release: string };
  return join(root, ".tools/cuda", `${release}-${architectures.replaceAll(";", "-")}`);
}

function isWhole(dir: string): boolean {
  const [library, sum] = [join(dir, LIBRARY), join(dir, `${LIBRARY}.sha256`)];
  if (!existsSync(library) || !existsSync(sum)) return false;
  const found = createHash("sha256").update(readFileSync(library)).digest("hex");
  return readFileSync(sum, "utf8").startsWith(found);
}

const run = (...argv: string[]) => Bun.spawnSync(argv, { cwd: root, stdio: ["ignore", "inherit", "inherit"] }).success;

/** The folder with the library, or null if there is none; the reason was printed. */
function take(way: Way): string | null {
  if (way.kind === "prebuilt") return way.dir;
  const dir = compiledDir(way.architectures);
  if (isWhole(dir)) return dir;
  console.log("Compiling the CUDA library once: about 4 minutes on 16 cores.");
  if (!run(join(scripts, "build_cuda"), "--arch", way.architectures, "--out", dir)) {
    console.error("The CUDA library could not be compiled; the reason is above.");
    return null;
  }
  rmSync(join(root, ".stage/cuda"), { recursive: true, force: true }); // gigabytes that are not needed again
  return dir;
}

/** The folder of the first available library that computes on the card in a test process. */
function libraryFor(ways: readonly Way[]): string | null {
  for (const way of ways) {
    const dir = take(way);
    if (dir === null) continue;
    const child = Bun.spawnSync([join(scripts, "cuda/try_library"), dir], { stdin: "ignore" });
    if (child.success) return dir;
    console.error(afterTrouble(way, child.stderr.toString()));
    return null;
  }
  return null;
}

const { ways, say } = flags.cpu ? { ways: [], say: null } : chooseLibrary(await lookAround());
if (say !== null) console.log(say);
const dir = libraryFor(ways);
if (say !== null && dir === null) console.log("Building for the CPU.");
process.exit(run(join(scripts, "build"), "--if-stale", ...(dir === null ? [] : ["--cuda", dir])) ? 0 : 1);

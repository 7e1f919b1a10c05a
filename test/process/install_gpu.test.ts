/**
 * install.sh on machines with an NVIDIA card. The programs of the machine (nvidia-smi, nvcc) and the scripts that take
 * minutes (build, build_cuda, try_library) are fakes that write down how they were called; everything between is real.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { platform } from "../../src/native/platform/index.ts";

const ROOT = join(import.meta.dir, "../..");
/** All that the scripts call. A whole directory of the machine could hold its own nvcc and nvidia-smi. */
const PROGRAMS =
  "basename bash cat chmod cut dirname env getconf grep head id install ls mkdir mv rm sed sh sha256sum sort tail uname".split(
    " ",
  );
const NVCC_13 = "echo 'Cuda compilation tools, release 13.0, V13.0.88'";
const H200 = "NVIDIA H200, 580.159.03, 9.0";

let dir: string;
let checkout: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-install-gpu-"));
  checkout = join(dir, "checkout");
  for (const each of ["system", "bin"]) mkdirSync(join(dir, each), { recursive: true });
  for (const name of PROGRAMS) symlinkSync(Bun.which(name) ?? `/usr/bin/${name}`, join(dir, "bin", name));
  for (const file of ["install.sh", "scripts/lib.sh", "scripts/build_here", "scripts/cuda", "config/verk.service"])
    cpSync(join(ROOT, file), join(checkout, file), { recursive: true });
  for (const link of ["src", "package.json", "bun.lock", "tsconfig.json", ".tools/bun", "scripts/bundle"]) {
    mkdirSync(dirname(join(checkout, link)), { recursive: true });
    symlinkSync(join(ROOT, link), join(checkout, link));
  }
  symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
  fakeScript(
    "build",
    'mkdir -p "$here/../dist" && printf \'#!/bin/sh\\necho verk "$@"\\n\' >"$here/../dist/verk" && chmod +x "$here/../dist/verk"; (cd "$here/../dist" && sha256sum verk >verk.sha256)',
  );
  fakeScript(
    "build_cuda",
    'while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done; mkdir -p "$out"; echo library >"$out/libggml-cuda.so"; (cd "$out" && sha256sum libggml-cuda.so >libggml-cuda.so.sha256)',
  );
  fakeScript("cuda/try_library", "exit 0");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** Replaces a script of the checkout by one that notes its arguments in `calls` first. */
function fakeScript(name: string, body: string) {
  const path = join(checkout, "scripts", name);
  rmSync(path, { force: true });
  const note = `echo "${name} $*" >>"${join(dir, "calls")}"`;
  writeFileSync(path, `#!/bin/sh\nhere=$(dirname "$0")\n${note}\n${body}\n`, { mode: 0o755 });
}

function fakeProgram(name: string, body: string) {
  mkdirSync(join(dir, "fake-bin"), { recursive: true });
  writeFileSync(join(dir, "fake-bin", name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
}
/** Answers to both questions that are asked of nvidia-smi: one line for a card. */
const fakeNvidiaSmi = (line: string) => fakeProgram("nvidia-smi", `echo '${line}'`);

function install(...args: string[]) {
  const env = {
    PATH: `${join(dir, "fake-bin")}:${join(dir, "bin")}`,
    HOME: dir,
    VERK_SYSTEM_ROOT: join(dir, "system"),
  };
  const { exitCode, stdout, stderr } = Bun.spawnSync([join(checkout, "install.sh"), ...args], { env, cwd: dir });
  const calls = existsSync(join(dir, "calls")) ? readFileSync(join(dir, "calls"), "utf8").trim().split("\n") : [];
  return { exitCode, stdout: stdout.toString(), stderr: stderr.toString(), calls };
}
const library = () => join(checkout, ".tools/cuda/v0.5.0-90");
const compiled = () => [`build_cuda --arch 90 --out ${library()}`, `cuda/try_library ${library()}`];

test("without a card the demo is built for the CPU, and no GPU is mentioned", () => {
  expect(install("demo", "--port", "1")).toEqual({
    exitCode: 0,
    stdout: "verk demo --port 1\n",
    stderr: "",
    calls: ["build --if-stale"],
  });
});

test("a card and nvcc 13: the library is compiled for this card, tested and built in, without a flag", () => {
  fakeNvidiaSmi(H200);
  fakeProgram("nvcc", NVCC_13);
  const { exitCode, stdout, calls } = install("--root", join(dir, "root"));
  expect(calls).toEqual([...compiled(), `build --if-stale --cuda ${library()}`]);
  expect(stdout).toContain("Found NVIDIA H200: building with a CUDA library for compute capability 9.0.");
  expect(exitCode).toBe(0);
  expect(existsSync(join(dir, "root/usr/local/bin/verk"))).toBe(true);
});

test("nvcc is found in /usr/local/cuda too, and a library that was compiled is not compiled again", () => {
  fakeNvidiaSmi(H200);
  const bin = join(dir, "system/usr/local/cuda/bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "nvcc"), `#!/bin/sh\n${NVCC_13}\n`, { mode: 0o755 });
  expect(install("demo").calls).toContain(compiled()[0] ?? "");
  rmSync(join(dir, "calls"));
  expect(install("demo").calls).toEqual([compiled()[1] ?? "", `build --if-stale --cuda ${library()}`]);
  rmSync(join(dir, "calls"));
  writeFileSync(join(library(), "libggml-cuda.so"), "damaged");
  expect(install("demo").calls).toContain(compiled()[0] ?? "");
});

test("--cpu builds for the CPU beside a card", () => {
  fakeNvidiaSmi(H200);
  fakeProgram("nvcc", NVCC_13);
  expect(install("demo", "--cpu", "--yes")).toMatchObject({ stdout: "verk demo --yes\n", calls: ["build --if-stale"] });
  rmSync(join(dir, "calls"));
  expect(install("--cpu", "--root", join(dir, "root"))).toMatchObject({ exitCode: 0, calls: ["build --if-stale"] });
});

test("a library that does not work on the card: one sentence says what to install, and the CPU is used", () => {
  fakeNvidiaSmi(H200);
  fakeProgram("nvcc", NVCC_13);
  fakeScript(
    "cuda/try_library",
    "echo 'Failed to open library \"x\": libcublas.so.13: cannot open shared object file' >&2; exit 1",
  );
  const { exitCode, stdout, stderr, calls } = install("demo");
  expect(exitCode).toBe(0);
  expect(stderr).toBe(
    "The CUDA library needs libcublas.so.13, which is not installed; to use the GPU, install NVIDIA's packages cuda-cudart-13-0 and libcublas-13-0 and run this again.\n",
  );
  expect(stdout).toContain("Building for the CPU.\n");
  expect(calls.at(-1)).toBe("build --if-stale");
});

test("a compilation that fails leaves its reason, and the install continues", () => {
  fakeNvidiaSmi(H200);
  fakeProgram("nvcc", NVCC_13);
  fakeScript("build_cuda", "echo 'build_cuda: cmake is not installed; on Debian: apt-get install cmake' >&2; exit 1");
  const { exitCode, stderr, calls } = install("demo");
  expect(exitCode).toBe(0);
  expect(stderr).toStartWith(
    "build_cuda: cmake is not installed; on Debian: apt-get install cmake\nThe CUDA library could not be compiled",
  );
  expect(calls[0]).toBe(compiled()[0]);
});

const hasPrebuilt = platform.arch === "x64";

test.if(hasPrebuilt)("without nvcc the library of the npm package is tested and built in", () => {
  fakeNvidiaSmi(H200);
  const dirOfPackage = join(checkout, "node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda");
  const { stdout, calls } = install("demo");
  expect(stdout).toContain("Found NVIDIA H200, but nvcc is not installed: building with the compiled library");
  expect(calls).toEqual([`cuda/try_library ${dirOfPackage}`, `build --if-stale --cuda ${dirOfPackage}`]);
});

test.if(!hasPrebuilt).each([
  ["no nvcc", "", "nvcc is not installed"],
  ["an old nvcc", "echo 'release 12.4, V12.4.131'", "belongs to CUDA 12.4, which is too old"],
])("with %s on a platform without a package, the toolkit is named and the CPU is used", (_name, nvcc, why) => {
  fakeNvidiaSmi(H200);
  if (nvcc) fakeProgram("nvcc", nvcc);
  const { exitCode, stdout, calls } = install("demo");
  expect(exitCode).toBe(0);
  expect(stdout).toContain(why);
  expect(stdout).toContain(
    "; to use the GPU, install the CUDA toolkit 13 (nvcc and cuBLAS) and run this again.\nBuilding for the CPU.\n",
  );
  expect(calls).toEqual(["build --if-stale"]);
});

test("a card whose nvidia-smi is missing is named with what to install", () => {
  mkdirSync(join(dir, "system/dev"));
  writeFileSync(join(dir, "system/dev/nvidia0"), "");
  const { stdout, calls } = install("demo");
  expect(stdout).toContain(
    "the machine has /dev/nvidia0, but nvidia-smi is not installed; to use the GPU, install the NVIDIA driver R580",
  );
  expect(calls).toEqual(["build --if-stale"]);
});

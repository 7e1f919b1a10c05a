// tier: all (checks of a release)
import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import type { ProbeReport } from "../../src/native/probe.ts";

const BINARY = resolve(process.env["VERK_BINARY"] ?? "dist/verk");
const KINDS = ["sharp", "onnx", "llama"] as const;

let dir: string;
let data: string;
let home: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-native-"));
  data = join(dir, "data");
  home = join(dir, "home");
  mkdirSync(data);
  mkdirSync(home);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const text = (stream: ReadableStream) => new Response(stream).text();

/** An empty environment and an empty directory: whatever works here came out of the executable. */
async function run(argv: string[]): Promise<{ code: number; report: ProbeReport; stderr: string }> {
  const child = Bun.spawn(argv, {
    cwd: home,
    env: { HOME: home, PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
    stderr: "pipe",
  });
  const [out, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), child.exited]);
  expect(out, stderr).toStartWith("{");
  return { code, report: JSON.parse(out), stderr };
}
const probe = (kind: string) => run([BINARY, "worker", "probe", kind, data]);

/** Mounts of its own need root and a kernel that allows it. */
const MOUNTS =
  Bun.which("unshare") !== null &&
  Bun.spawnSync(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).success;
const probeOnTmpfs = (kind: string, options: string) => {
  const script = `mount -t tmpfs -o ${options} none ${data} && exec ${BINARY} worker probe ${kind} ${data}`;
  return run(["unshare", "--mount", "sh", "-c", script]);
};

const listAll = (root: string): string[] => readdirSync(root, { recursive: true }).map(String);
const groupsIn = (root: string) => readdirSync(join(root, "native")).filter((name) => name !== "lock");

test.each(KINDS)("%s does real work from the executable alone and writes nothing under HOME", async (kind) => {
  const { code, report } = await probe(kind);
  expect(report).toMatchObject({ kind, ok: true });
  expect(code).toBe(0);
  expect(listAll(home)).toEqual([]);
});

test("several processes that extract at once all succeed and leave one copy", async () => {
  const results = await Promise.all(Array.from({ length: 4 }, () => probe("onnx")));
  expect(results.map((r) => r.report.error ?? "ok")).toEqual(["ok", "ok", "ok", "ok"]);
  expect(groupsIn(data)).toHaveLength(1);
});

test("an extracted file that was truncated or overwritten is replaced", async () => {
  await probe("sharp");
  const library = join(data, "native", listAll(join(data, "native")).find((f) => f.includes("libvips-cpp.so"))!);
  const bytes = statSync(library).size;
  for (const damage of [() => truncateSync(library, 1000), () => writeFileSync(library, Buffer.alloc(bytes))]) {
    damage();
    const { report } = await probe("sharp");
    expect(report).toMatchObject({ ok: true });
    expect(statSync(library).size).toBe(bytes);
  }
  expect(groupsIn(data)).toHaveLength(1);
});

test("an extraction that was killed half-way is finished by the next process", async () => {
  const child = Bun.spawn([BINARY, "worker", "probe", "onnx", data], { env: {}, stdout: "ignore", stderr: "ignore" });
  const hasBegun = () => listAll(data).some((path) => path.startsWith("native/tmp-"));
  while (!hasBegun() && child.exitCode === null) await Bun.sleep(1);
  child.kill("SIGKILL");
  await child.exited;
  expect(child.signalCode).toBe("SIGKILL");
  expect((await probe("onnx")).report).toMatchObject({ ok: true });
  expect(groupsIn(data)).toHaveLength(1);
});

test("an unknown library is refused with the list of known ones", async () => {
  const child = Bun.spawn([BINARY, "worker", "probe", "nonsense", data], { stderr: "pipe", env: {} });
  expect(await text(child.stderr)).toContain("sharp, onnx, llama");
  expect(await child.exited).toBe(2);
});

test.skipIf(!MOUNTS)("a full disk is named as such and leaves nothing half-written", async () => {
  const { code, report } = await probeOnTmpfs("onnx", "size=8m");
  expect(report).toMatchObject({ ok: false, error: expect.stringContaining("the disk is full") });
  expect(code).toBe(1);
});

test.skipIf(!MOUNTS)("a read-only data directory is named as such", async () => {
  const { report } = await probeOnTmpfs("onnx", "ro");
  expect(report).toMatchObject({ ok: false, error: expect.stringContaining("the file system is read-only") });
});

test.skipIf(!MOUNTS)("a data directory mounted noexec is named as such", async () => {
  const { report } = await probeOnTmpfs("sharp", "noexec");
  expect(report).toMatchObject({ ok: false, error: expect.stringContaining("noexec") });
});

/** Only the C library: no node_modules, no C++ runtime. */
function makeBareRoot(root: string) {
  const needed = Bun.spawnSync(["ldd", BINARY]).stdout.toString();
  const libraries = [...needed.matchAll(/(\/\S+\.so\S*)/g)].map((m) => m[1]!);
  const folder = dirname(libraries.find((path) => basename(path) === "libc.so.6")!);
  const more = ["librt.so.1", "libresolv.so.2", "libdl.so.2", "libpthread.so.0", "libm.so.6"];
  for (const path of new Set([...libraries, ...more.map((name) => join(folder, name))])) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    copyFileSync(path, join(root, path));
  }
  for (const name of ["tmp", "data", "proc"]) mkdirSync(join(root, name), { recursive: true });
  copyFileSync(BINARY, join(root, "verk"));
}

test.skipIf(!MOUNTS)("everything works in a root with only the executable and glibc", async () => {
  const root = join(dir, "root");
  makeBareRoot(root);
  for (const kind of KINDS) {
    const script = `mount -t proc none ${root}/proc && exec chroot ${root} /verk worker probe ${kind} /data`;
    const { report } = await run(["unshare", "--mount", "sh", "-c", script]);
    expect(report).toMatchObject({ kind, ok: true });
  }
  expect(groupsIn(join(root, "data")).map((name) => name.replace(/-[0-9a-f]+$/, ""))).toContain("cxx");
});

test("the version names the commit, and the executable stays under 200 MB without CUDA", async () => {
  expect(Bun.spawnSync([BINARY, "version"]).stdout.toString()).toMatch(/^verk \d+\.\d+\.\d+ \(\w+\)\n$/);
  const { report } = await probe("llama");
  if (!report.detail["cuda"]) expect(statSync(BINARY).size).toBeLessThan(200e6);
});

// tier: all (networks of the detectors)
/** `verk detect adapt` with models that look at green alone, on files whose label is in red and blue. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runVerk, spawnVerk } from "../cli.ts";
import { drawn } from "../detection/drawn.ts";
import { FAKES, green, writeModels } from "../detection/fake_models.ts";
import { wavOf } from "../detection/sounds.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
const models = writeModels(join(root, "models"), {
  detector_v0: { graph: green(1 / 64, -2) },
  detector_v1: { graph: green(1 / 128, -1) },
  detector_audio_v0: FAKES.detector_audio_v0,
});
const [work, data] = [join(root, "work"), join(root, "data")];
const stored = join(data, "adapted_detectors");

const surroundings = (more: Record<string, string> = {}) => ({
  cwd: work,
  env: { HOME: root, TMPDIR: root, VERK_DETECT__MODELS_DIR: models, ...more },
});
const verk = (args: string[], more: Record<string, string> = {}) =>
  runVerk(["detect", ...args, "--data", data], surroundings(more));

const put = (path: string, bytes: Uint8Array) => {
  mkdirSync(dirname(join(work, path)), { recursive: true });
  writeFileSync(join(work, path), bytes);
};
const plain = (r: number, g: number, b: number) => drawn(256, 256, { r, g, b }).png().toBuffer();

beforeAll(async () => {
  mkdirSync(work);
  for (let i = 0; i < 48; i++) {
    const [isAi, noise] = [i % 2 === 0, (i * 37) % 90];
    const [label, source] = [isAi ? "generated" : "real", `s${Math.floor(i / 2) % 4}`];
    const red = (isAi ? 150 : 60) + (noise % 40);
    put(`set/${label}/${label}-${source}/${i}.png`, await plain(red, 80 + noise, 210 - red));
    put(`chance/${label}/${label}-${source}/${i}.png`, await plain((i * 53) % 251, 80 + noise, (i * 91) % 241));
    put(
      `voices/${label}/${i}.wav`,
      wavOf({ seconds: 1, channels: 1, bits: 16, level: 0.1 + (isAi ? 0.1 : 0) + noise / 900 }),
    );
  }
  put("set/real/notes.txt", new TextEncoder().encode("of another kind"));
  put("red.png", await plain(170, 100, 40));
  put("blue.png", await plain(70, 100, 140));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const scores = async () => {
  const { lines } = await verk(["red.png", "blue.png", "--json"]);
  return lines().map((each) => ({ score: each.ensemble_score, versions: each.modelVersions }));
};

test("learns the last layer, says before and after, and is in use until it is reset", async () => {
  const shipped = await scores();
  expect(shipped[0]!.score).toBe(shipped[1]!.score);
  const { code, lines, err } = await verk(["adapt", "set", "--json"]);
  expect([code, err.includes("Warning")]).toEqual([0, false]);
  const [made] = lines();
  expect(made).toMatchObject({
    object: "detection_adaptation",
    adapted: true,
    number: 1,
    by_source: true,
    changes: ["detector_v0: calibration and last layer", "detector_v1: calibration and last layer"],
    reasons: [],
  });
  for (const part of ["cross_validated", "kept"])
    for (const { before, after } of made.figures[part]) {
      expect(before.auroc).toBeLessThan(0.8);
      expect(after.auroc).toBeGreaterThan(0.95);
    }
  const [red, blue] = await scores();
  expect(red!.score).toBeGreaterThan(0.7);
  expect(blue!.score).toBeLessThan(0.3);
  expect(red!.versions).toEqual({ detector_v0: "fake-1+adapted.1", detector_v1: "fake-1+adapted.1" });
  expect((await verk(["adapt", "--reset"])).out).toBe("The models are in use as shipped.\n");
  expect(await scores()).toEqual(shipped);
}, 60_000);

test("keeps what is in use if the kept files would be judged worse, and says so", async () => {
  const before = existsSync(stored) ? readdirSync(stored) : [];
  const { code, out } = await verk(["adapt", "chance"]);
  expect(out).toMatch(/^cross-validated, \d+ files, original +BEFORE +AFTER$/m);
  expect(out).toMatch(/^kept aside, \d+ files, jpeg_80 +BEFORE +AFTER$/m);
  expect(out).toContain("\nNothing was changed: ");
  expect([code, existsSync(stored) ? readdirSync(stored) : []]).toEqual([5, before]);
}, 60_000);

test("recalibrates speech, whose last layer cannot change", async () => {
  const { code, lines } = await verk(["adapt", "voices", "--audio", "--json"]);
  expect(code).toBe(0);
  expect(lines()[0]).toMatchObject({ adapted: true, by_source: false, changes: ["detector_audio_v0: calibration"] });
  const number = lines()[0].number;
  const again = await verk(["voices/real/1.wav", "--json"]);
  expect(again.lines()[0].modelVersions).toEqual({ detector_audio_v0: `fake-1+adapted.${number}` });
}, 60_000);

test("survives kill -9 while it scores and between its two writes", async () => {
  const shipped = await scores();
  const scoring = spawnVerk(["detect", "adapt", "set", "--data", data], surroundings());
  await until("the detector opens", () => readdirSync(root).some((name) => name.startsWith("verk-detect-")));
  scoring.kill("SIGKILL");
  await scoring.exited;
  const late = await verk(["adapt", "set"], { VERK_FAILPOINT: "detection.adaptation_written:1" });
  expect(late.code).not.toBe(0);
  expect(await scores()).toEqual(shipped);
  const { lines } = await verk(["adapt", "set", "--json"]);
  expect(lines()[0].adapted).toBe(true);
  expect(readdirSync(stored).sort()).toContain(`${lines()[0].number}.json`);
}, 90_000);

test("reads a hostile folder to its end: links, pipes, devices, bombs, odd names and thousands of files", async () => {
  cpSync(join(work, "set"), join(work, "hostile"), { recursive: true });
  const at = (name: string) => join(work, "hostile/generated/generated-s0", name);
  Bun.spawnSync(["mkfifo", at("pipe.png")]);
  symlinkSync("/dev/zero", at("zero.png"));
  symlinkSync("/proc/self/mem", at("mem.png"));
  symlinkSync("loop.png", at("loop.png"));
  symlinkSync("..", at("parent"));
  symlinkSync("/etc/passwd", at("passwd.png"));
  const good = await plain(1, 2, 3);
  const wide = Buffer.from(good);
  wide.writeUInt32BE(3_000_000_000, 16);
  put("hostile/generated/generated-s0/line\nbreak \u001b[31m.png", wide);
  put("hostile/generated/generated-s0/empty.png", new Uint8Array());
  put("hostile/generated/generated-s0/short.png", good.subarray(0, 40));
  put("hostile/generated/generated-s0/large.png", good);
  truncateSync(at("large.png"), 3_000_000_000); // a hole, which takes no space
  for (let i = 0; i < 3_000; i++) put(`hostile/real/many/${i}.txt`, new Uint8Array(1));
  const { code, lines, err } = await verk(["adapt", "hostile", "--json"]);
  expect(code === 0 || code === 5).toBe(true);
  const [{ files }] = lines();
  expect(files.generated).toBe(24);
  expect(files.failed).toBeGreaterThanOrEqual(2); // the bomb and the short one
  expect(files.left_out).toBeGreaterThanOrEqual(3_000);
  expect(err).not.toContain("\u001b[31m");
  expect(err).not.toContain("root:");
  await verk(["adapt", "--reset"]);
}, 180_000);

test("names what is missing", async () => {
  const none = await verk(["adapt", "nothing"]);
  expect([none.code, none.err]).toEqual([
    2,
    expect.stringContaining("expected the folders nothing/generated and nothing/real"),
  ]);
  expect((await verk(["adapt"])).err).toContain("dir is missing");
  expect((await verk(["adapt", "set", "--reset"])).err).toContain("--reset takes no folder");
}, 30_000);

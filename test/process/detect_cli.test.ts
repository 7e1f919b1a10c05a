// tier: all (networks of the detectors)
/** `verk detect` as it ships, but with untrained weights: they score white and noise as generated. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runVerk, spawnVerk } from "../cli.ts";
import { drawn } from "../detection/drawn.ts";
import { FAKES, writeModels } from "../detection/fake_models.ts";
import { wavOf } from "../detection/sounds.ts";
import { tempDir, until } from "../harness.ts";

const root = tempDir();
const models = writeModels(join(root, "models"), FAKES);
const [temporary, work] = [join(root, "tmp"), join(root, "work")];

type Options = { env?: Record<string, string> };
/** No data directory, no server, no key. */
const surroundings = ({ env = { VERK_DETECT__MODELS_DIR: models } }: Options) => ({
  cwd: work,
  env: { HOME: join(root, "home"), TMPDIR: temporary, ...env },
});
const spawn = (args: string[], options: Options = {}) => spawnVerk(["detect", ...args], surroundings(options));
const verk = (args: string[], options: Options = {}) => runVerk(["detect", ...args], surroundings(options));

const put = (path: string, bytes: Uint8Array | string) => {
  mkdirSync(dirname(join(work, path)), { recursive: true });
  writeFileSync(join(work, path), bytes);
};
const grey = (value: number) => drawn(300, 280, { r: value, g: value, b: value });
const SET = {
  "ai/paint": [255, 240, 200, 100],
  "ai/draw/deep": [130, 180],
  "real/phone": [0, 10, 30],
  real: [128, 150],
};

beforeAll(async () => {
  for (const dir of [temporary, work]) mkdirSync(dir);
  for (const [dir, values] of Object.entries(SET))
    for (const value of values) put(`set/${dir}/${value}.jpg`, await grey(value).jpeg().toBuffer());
  put("set/ai/notes.txt", "of another kind");
  put("set/real/broken.png", (await grey(1).png().toBuffer()).subarray(0, 60));
  put("white.png", await grey(255).png().toBuffer());
  put("black.png", await grey(0).png().toBuffer());
  for (const [path, level] of [["ai/loud", 0.9], ["real/soft", 0.05]] as const) // biome-ignore format: a table
    put(`voices/${path}.wav`, wavOf({ seconds: 1, channels: 1, bits: 16, level }));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("verk detect", () => {
  test("scores files by all models, without a server, and leaves nothing behind", async () => {
    const { code, out, err } = await verk(["white.png", "black.png"]);
    expect([code, err]).toEqual([0, "2 scored: 1 ai, 1 real\n"]);
    expect(out).toBe(
      "SCORE  PREDICTION   detector_v0  detector_v1  FILE\n" +
        "0.930  ai           0.981        0.879        white.png\n" +
        "0.069  real         0.018        0.120        black.png\n",
    );
    expect([readdirSync(temporary), existsSync(join(root, "home/.local"))]).toEqual([[], false]);
  }, 30_000);

  test("takes the readable files of a folder, in the order of names, and reports progress", async () => {
    const { code, out, err } = await verk(["set", "--models", "detector_v0", "--robustness"]);
    expect(code).toBe(1); // one is broken
    const files = out.split("\n").slice(1, -1).map((line) => line.match(/set\S+/)?.[0]); // biome-ignore format: one thought
    expect(files.slice(0, 3)).toEqual(["set/ai/draw/deep/130.jpg", "set/ai/draw/deep/180.jpg", "set/ai/paint/100.jpg"]);
    expect(files).toHaveLength(12);
    expect(out).toMatch(/^- +error +- +set\/real\/broken\.png: The image's header cannot be decoded/m);
    expect(out).toMatch(/^0\.29\d +likely_real +0\.29\d–0\.29\d +set\/ai\/paint\/100\.jpg$/m);
    expect(err).toContain("scoring 100 %\n");
    expect(err).toContain("11 scored: ");
    expect(err).toContain("; 1 failed; 1 of other types skipped");
  }, 30_000);

  test("F30 --json is the API's own shape, a line for each file, also for one that is missing", async () => {
    put("kind.txt", "words");
    const { code, lines } = await verk(["white.png", "voices/ai/loud.wav", "none.png", "kind.txt", "--json"]);
    expect(code).toBe(1);
    expect(lines()).toEqual([
      expect.objectContaining({ file: "white.png", prediction: "ai", isFake: true, models_succeeded: 2 }),
      expect.objectContaining({ file: "voices/ai/loud.wav", models_total: 1, image: null }),
      { file: "none.png", code: "UNREADABLE", error: "there is no such file or folder" },
      { file: "kind.txt", code: "UNSUPPORTED_FORMAT", error: expect.stringContaining("JPEG, PNG") },
    ]);
  }, 30_000);

  test("with a threshold the exit code is a check", async () => {
    expect((await verk(["white.png", "black.png", "--threshold", "0.92"])).code).toBe(5);
    expect((await verk(["white.png", "black.png", "--threshold", "0.94"])).code).toBe(0);
  }, 30_000);

  test("a detector that dies in the middle is started again, and no file is missed", async () => {
    const args = [...Array.from({ length: 8 }, () => "set/real"), "--json", "--robustness"];
    const child = spawn(args);
    const [reading, told] = child.stdout.tee();
    await reading.getReader().read(); // it is at work
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
    process.kill(Number(children.split(" ")[0]), "SIGKILL");
    const lines = (await new Response(told).text()).trim().split("\n");
    await child.exited;
    const codes = lines.map((line) => JSON.parse(line).code);
    expect([lines.length, codes.filter((code) => code !== undefined && code !== "INVALID_IMAGE")]).toEqual([48, []]);
    expect(codes.filter((code) => code === "INVALID_IMAGE")).toHaveLength(8); // the broken one, each time
  }, 30_000);

  test("Ctrl-C in the middle exits 130 and leaves neither a process nor a file", async () => {
    const args = Array.from({ length: 200 }, () => "set");
    const child = spawn([...args, "--robustness"]);
    const reader = child.stdout.getReader();
    await reader.read(); // it is at work
    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
    child.kill("SIGINT");
    while (!(await reader.read()).done);
    await child.exited;
    expect([child.exitCode, readdirSync(temporary)]).toEqual([130, []]);
    for (const pid of children.split(" ")) await until(`${pid} to be gone`, () => !existsSync(`/proc/${pid}`));
  }, 30_000);

  test.each([
    [[], "file… is missing"],
    [["white.png", "--models", "detector_v2"], "Did you mean detector_v"],
    [["white.png", "--threshold", "85"], "expected a number from 0 to 1"],
    [["eval", "."], "Put generated files into ai and real files into real"],
    [["eval", "none"], "there is no such folder"],
    [["eval", "set", "--models", "detector_audio_v0"], "detector_audio_v0 reads speech. Add --audio."],
  ])("%p is a wrong argument", async (args, message) => {
    expect(await verk(args)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(message) });
  });

  test("without models the error says where they should be", async () => {
    const empty = join(root, "empty");
    mkdirSync(empty);
    const { code, out, err } = await verk(["white.png"], { env: { VERK_DETECT__MODELS_DIR: empty } });
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain("No detection model can be loaded. No models are available. Check detect.models_dir");
  }, 30_000);

  test("help shows both forms of the command", async () => {
    const { code, out } = await verk(["--help"]);
    expect(code).toBe(0);
    expect(out).toContain("verk detect <file…> ");
    expect(out).toContain("  eval <dir>  ");
  });
});

describe("verk detect eval", () => {
  /** Brighter is more generated: 27 of the 6 × 5 pairs are in order. */
  test("measures the whole, each model, each source, and the effect of re-encoding", async () => {
    const { code, lines, err } = await verk(["eval", "set", "--json"]);
    expect([code, err]).toEqual([0, expect.stringContaining("set/real/broken.png: The image's header")]);
    const [found] = lines();
    expect(found).toMatchObject({
      object: "detection_evaluation",
      modelVersions: { detector_v0: "fake-1", detector_v1: "fake-1" },
      files: { ai: 6, real: 5 },
      auroc: 0.9,
      balanced_accuracy: (5 / 6 + 3 / 5) / 2,
      ai_tier: { precision: 1, recall: 2 / 6, files: 2 },
      models: { detector_v0: { auroc: 0.9 }, detector_v1: { auroc: 0.9 } },
      failures: [{ code: "INVALID_IMAGE" }],
      left_out: 1,
    });
    expect(Object.keys(found.robustness)).toEqual(expect.arrayContaining(["jpeg_60", "webp_70", "scale_0.5"]));
    for (const view of ["jpeg_60", "webp_70", "scale_0.5"])
      expect(found.robustness[view]).toMatchObject({ files: 11, auroc: expect.any(Number) });
    const sources = found.sources.map(({ label, source, files }: Record<string, unknown>) => [label, source, files]);
    expect(sources).toEqual([
      ["ai", "draw", 2],
      ["ai", "paint", 4],
      ["real", "", 2],
      ["real", "phone", 3],
    ]);
  }, 30_000);

  test("prints tables", async () => {
    const { code, out } = await verk(["eval", "set"]);
    expect(code).toBe(0);
    expect(out).toMatch(/^6 ai, 5 real by detector_v0 fake-1, detector_v1 fake-1; 1 could not be scored/);
    expect(out).toMatch(/^AUROC +0\.900$/m);
    expect(out).toMatch(/^balanced accuracy +0\.717 at 0\.5$/m);
    expect(out).toMatch(/^calibration error \(ECE\) +0\.193, /m);
    expect(out).toMatch(/^jpeg_60 +\d\.\d{3} +\d\.\d{3} +11$/m);
    expect(out).toMatch(/^0\.9–1\.0 +2 +0\.920 +1\.000$/m);
    expect(out).toMatch(/^ai +paint +4 +0\.900 +0\.754 +0\.750 +2 +1 +0 +1 +0$/m);
  }, 30_000);

  test("scores speech with --audio, and finds nothing to compare without it", async () => {
    const { code, lines } = await verk(["eval", "voices", "--audio", "--json"]);
    expect(code).toBe(0);
    expect(lines()[0]).toMatchObject({ files: { ai: 1, real: 1 }, auroc: 1, robustness: {} });
    const images = await verk(["eval", "voices"]);
    expect([images.code, images.out]).toEqual([1, ""]);
    expect(images.err).toContain("no file in ai and none in real could be scored");
  }, 30_000);
});

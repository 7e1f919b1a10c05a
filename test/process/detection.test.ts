// tier: all (networks of the detectors)
/** The server and its detector as they ship, but with untrained weights: they score white as generated. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { drawn } from "../detection/drawn.ts";
import { FAKES, writeModels } from "../detection/fake_models.ts";
import { violations } from "../fault/invariants.ts";
import { tempDir, until } from "../harness.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";

const dir = tempDir();
const models = writeModels(join(dir, "weights"), FAKES);
const env = {
  VERK_NETWORK__ALLOW: "127.0.0.1",
  VERK_NETWORK__CA_FILE: TLS_FLAGS["network.ca_file"],
  VERK_DETECT__MODELS_DIR: models,
};
let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;

beforeAll(async () => {
  ({ key } = await makeKey(dir, "--scope", "detect"));
  server = await startBinary({ dir, env, key });
}, 60_000);
afterAll(async () => {
  await server.kill("SIGTERM");
  rmSync(dir, { recursive: true, force: true });
}, 60_000);

const call = (method: string, path: string, json?: object) => server.call(method, path, json);
const grey = (value: number, width = 300) => drawn(width, 280, { r: value, g: value, b: value });
const sent = async (value: number, width?: number) => ({
  image: (await grey(value, width).jpeg().toBuffer()).toString("base64"),
});

describe("a server with its detector", () => {
  test("scores an image by both models, and returns the stored result later", async () => {
    const white = { ...(await sent(255)), models: ["detector_v0", "detector_v1"], robustness: true };
    const { status, body } = await call("POST", "/api/detect", white);
    expect([status, body.prediction, body.isFake, body.models_succeeded]).toEqual([200, "ai", true, 2]);
    expect(body.image).toMatchObject({ width: 300, height: 280, format: "jpeg" });
    expect(body.signals.robustness.flips).toBe(false);
    expect((await call("POST", "/v1/detect", white)).body).toMatchObject({ id: body.id, cached: true });
    const black = await call("POST", "/v1/detect", await sent(0));
    expect(black.body).toMatchObject({ prediction: "real", isFake: false, modelVersions: { detector_v0: "fake-1" } });
    expect((await call("GET", `/api/detect/${black.body.id}`)).body.prediction).toBe("real");
  }, 30_000);

  test("accepts an image by its address, with any content type of its server", async () => {
    const png = new Uint8Array(await grey(255).png().toBuffer());
    const host = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(png) });
    const { body } = await call("POST", "/api/detect/url", { url: host.url.href });
    expect(body).toMatchObject({ prediction: "ai", image: { format: "png" } });
    await host.stop(true);
    const refused = await call("POST", "/api/detect/url", { url: "http://169.254.169.254/a.png" });
    expect([refused.status, refused.body.code]).toEqual([400, "URL_NOT_ALLOWED"]);
  });

  test("refuses a file that is no image with a message, and continues", async () => {
    const whole = await grey(90).jpeg().toBuffer();
    const jpeg = (bytes: Buffer) => call("POST", "/api/detect", { image: bytes.toString("base64") });
    expect(await jpeg(whole.subarray(0, 40))).toMatchObject({ status: 400, body: { code: "INVALID_IMAGE" } });
    const padded = (bytes: number) => Buffer.concat([whole.subarray(0, 200), Buffer.alloc(bytes - 200)]);
    expect((await jpeg(padded(10_485_760))).body.code).toBe("INVALID_IMAGE");
    expect(await jpeg(padded(10_485_761))).toMatchObject({ status: 413, body: { code: "IMAGE_TOO_LARGE" } });
    expect(await jpeg(Buffer.alloc(30_000_000))).toMatchObject({ status: 413, body: { code: "IMAGE_TOO_LARGE" } });
    expect((await jpeg(whole)).status).toBe(200);
  }, 30_000);

  test("killed in the middle of a batch, finishes it after its restart, and reports it once", async () => {
    const receiver = startTlsReceiver();
    const { body: config } = await call("PUT", "/v1/config", { webhookUrl: receiver.url });
    const images = await Promise.all(Array.from({ length: 60 }, (_, i) => sent(i % 2 === 0 ? 255 : 0, 300 + i)));
    const { body: batch } = await call("POST", "/api/detect/batch", { images });
    const standing = async () => (await call("GET", `/api/detect/batch/${batch.jobId}`)).body;
    await until("some of it", async () => (await standing()).successCount > 5);
    await server.kill("SIGKILL");
    server = await startBinary({ dir, env });
    await until("all of it", async () => (await standing()).status === "completed", 60_000);
    await until("word of it", () => receiver.got.length > 0);
    const [told] = receiver.got;
    expect(JSON.parse(told?.body ?? "").data).toMatchObject({ jobId: batch.jobId, successCount: 60 });
    const mac = createHmac("sha256", config.webhookSecret).update(told?.body ?? "");
    expect(told?.headers.get("x-service-signature")).toBe(`sha256=${mac.digest("hex")}`);
    const { body } = await call("GET", `/api/detect/batch/${batch.jobId}/results?limit=1000`);
    const predictions = body.results.map((each: { result: { prediction: string } }) => each.result.prediction);
    expect(predictions).toEqual(images.map((_, i) => (i % 2 === 0 ? "ai" : "real")));
    await until("its images to be removed", () => readdirSync(join(dir, "detection")).length === 0);
    expect(receiver.got).toHaveLength(1);
    await receiver.stop();
  }, 120_000);

  test("its quota survives a kill, and its data is sound", async () => {
    const credits = async () => (await call("GET", "/v1/config")).body.credits as number;
    const before = await credits();
    await call("POST", "/api/detect", await sent(77));
    await server.kill("SIGKILL");
    expect(violations(dir)).toEqual([]);
    server = await startBinary({ dir, env });
    expect(await credits()).toBe(before - 1);
  }, 60_000);

  test("its detector ends with it", async () => {
    await call("POST", "/api/detect", await sent(78));
    await server.kill("SIGKILL");
    const isDetector = (pid: string) =>
      existsSync(`/proc/${pid}/environ`) && readFileSync(`/proc/${pid}/environ`, "utf8").includes(dir);
    const left = () =>
      readdirSync("/proc").filter((pid) => {
        try {
          return /^\d+$/.test(pid) && Number(pid) !== process.pid && isDetector(pid);
        } catch {
          return false;
        }
      });
    await until("nothing to be left", () => left().length === 0);
    server = await startBinary({ dir, env });
  }, 60_000);
});

// tier: all (whole paths on the executable)
/** Audio bombs through the routes of the executable: each is answered, memory is bounded, and others are served meanwhile. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { audioBombs } from "../detection/audio_bombs.ts";
import { FAKES, writeModels } from "../detection/fake_models.ts";
import { wavOf } from "../detection/sounds.ts";
import { tempDir, until } from "../harness.ts";

setDefaultTimeout(300_000);
const dir = tempDir();
let server: Awaited<ReturnType<typeof startBinary>>;
let key: string;
beforeAll(async () => {
  const models = writeModels(join(dir, "weights"), FAKES);
  ({ key } = await makeKey(dir, "--scope", "detect"));
  const env = { VERK_DETECT__MODELS_DIR: models, VERK_HTTP__RATE_LIMIT_PER_SECOND: "0" };
  server = await startBinary({ dir, env, key });
});
afterAll(async () => {
  await server.kill("SIGTERM");
  rmSync(dir, { recursive: true, force: true });
});

const detect = async (bytes: Uint8Array, path = "/v1/detect?models=detector_audio_v0") => {
  const headers = { "x-api-key": key, authorization: `Bearer ${key}`, "content-type": "audio/wav" };
  const answer = await fetch(server.url + path, { method: "POST", headers, body: bytes as BodyInit });
  const body = (await answer.json()) as { code?: string; error?: string; status?: string };
  return { status: answer.status, body };
};
const MIB = 2 ** 20;
const peakOf = (pid: number | string) =>
  (Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1_024) / MIB;
const workers = () =>
  readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, "utf8")
    .split(" ")
    .filter((pid) => pid !== "" && readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("\0detector\0"));

test("every bomb is a result or a refusal in words, and the next recording is heard", async () => {
  const good = wavOf({ seconds: 1, channels: 1, bits: 16 });
  expect((await detect(good)).status).toBe(200);
  const before = peakOf(server.pid);
  const answers: Record<string, string> = {};
  for (const { name, bytes } of audioBombs()) {
    const { status, body } = await detect(bytes);
    answers[name] = `${status} ${body.code ?? ""}`;
    expect([name, [200, 400, 413, 415].includes(status)]).toEqual([name, true]);
    if (status !== 200) expect(body.error?.length ?? 0).toBeGreaterThan(10);
  }
  expect(answers["FLAC of 600 hours of silence"]).toBe("413 IMAGE_TOO_LARGE");
  expect(answers["MP3 of hours of silence"]).toBe("413 IMAGE_TOO_LARGE");
  expect(answers["WAV with 65,535 channels"]).toBe("400 INVALID_IMAGE");
  for (const pid of workers()) expect(peakOf(pid)).toBeLessThan(1_500);
  expect(peakOf(server.pid) - before).toBeLessThan(400);
  expect((await detect(good)).status).toBe(200);
});

test("eight bombs at once leave a place for another recording, and memory is bounded", async () => {
  const bombs = audioBombs().filter(({ name }) => /hours|predicts|8 channels|43 minutes/.test(name));
  let open = 0;
  const all = Array.from({ length: 8 }, async (_, i) => {
    const { bytes } = bombs[i % bombs.length]!;
    const own = Buffer.concat([bytes, Buffer.of(i)]); // equal files would be scored once
    open++;
    return await detect(own).finally(() => open--);
  });
  await until("all are sent", () => open === 8);
  const small = await detect(wavOf({ seconds: 1, channels: 1, bits: 16, level: 0.3 }));
  expect(small.status).toBe(200);
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
  for (const { status } of await Promise.all(all)) expect([200, 400, 413, 415, 429, 503]).toContain(status);
  for (const pid of workers()) expect(peakOf(pid)).toBeLessThan(2_500);
});

/** The executable asked for detections from inside a world without a way out: see process/detection_alone. */
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { FAKES, writeModels } from "../detection/fake_models.ts";
import { wavOf } from "../detection/sounds.ts";
import { until } from "../harness.ts";

const [dir = ""] = process.argv.slice(2);
const env = { VERK_DETECT__MODELS_DIR: writeModels(join(dir, "weights"), FAKES) };
const server = await startBinary({ dir, env });
const { key } = await makeKey(dir, "--scope", "detect");
const headers = { "x-api-key": key, "content-type": "application/json" };
// biome-ignore lint/suspicious/noExplicitAny: whatever the server answered
async function call(path: string, json?: object): Promise<any> {
  const sent = json ? { method: "POST", body: JSON.stringify(json) } : {};
  return await (await fetch(server.url + path, { headers, ...sent })).json();
}
const image = (await Bun.file(join(dir, "white.jpg")).bytes()).toBase64();
const audio = wavOf({ seconds: 1, channels: 1, bits: 16, level: 0.9 }).toBase64();
const single = await call("/api/detect", { image, models: ["detector_v0", "detector_v1"], robustness: true });
const clip = await call("/api/detect", { audio });
const { jobId } = await call("/api/detect/batch", { images: [{ image }, { image: audio }] });
const batch = await until("the batch", async () => {
  const body = await call(`/api/detect/batch/${jobId}`);
  return body.status === "completed" && body;
});
const outside = await Bun.write(join(dir, "../outside"), "x").catch(({ code }) => code);
const away = await fetch("http://192.0.2.1/").catch(({ code }) => code);
await server.kill("SIGTERM");
console.log(
  JSON.stringify({
    found: [single.prediction, clip.prediction, batch.successCount],
    outside,
    away,
    warned: server.stderr().split("\n").filter((line) => /"level":"(warn|error)"/.test(line)), // biome-ignore format: one thought
  }),
);

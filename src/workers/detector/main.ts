/**
 * `verk worker detector`: scores images and clips over HTTP on a unix socket until the server asks it to stop. Files
 * are untrusted: if a decoder breaks this process, the server starts another.
 */
import { loadSharp } from "../../native/sharp.ts";
import { type Host, runHosted } from "../host.ts";
import { WorkerError } from "../protocol.ts";
import { type FromDetector, MODELS, ToDetector } from "../protocol_detector.ts";
import { applyAdaptation, exposeFeatures } from "./adapted/apply.ts";
import { createGate } from "./gate.ts";
import { createRequestHandler, listen } from "./http.ts";
import { mostBytesHeld } from "./image/decode.ts";
import { openLanes } from "./lanes.ts";
import { findModels, type Models } from "./models.ts";
import { readTrustList } from "./origin/certificates.ts";
import type { World } from "./world.ts";

type DetectorHost = Host<ToDetector, FromDetector>;
type Open = Extract<ToDetector, { type: "open" }>;

const DECODE_SECONDS = 10;
const RUN_LIMIT_MS = 30_000;
const DRAIN_MS = 1_000; // time for running requests to finish

export const runDetector = () => runHosted<ToDetector, FromDetector>(ToDetector, serve);

async function serve(host: DetectorHost): Promise<void> {
  for await (const message of host.messages) return await serveModels(host, message);
}

async function serveModels(host: DetectorHost, open: Open): Promise<void> {
  const fatal = Promise.withResolvers<never>();
  const world = await openWorld(open, (error) =>
    fatal.reject(new WorkerError("crashed", error.message, { cause: error })),
  );
  const server = listen(host.socketPath, createRequestHandler(world));
  for (const [name, error] of world.models.errors) console.error(`${name} cannot be used: ${error}`);
  const versions = MODELS.flatMap((name) => {
    const model = world.models.found.get(name);
    return model ? [[name, model.calibration.version]] : [];
  });
  host.send({ type: "opened", versions: Object.fromEntries(versions) as Record<string, string> });
  await Promise.race([ended(host), fatal.promise]);
  await Promise.race([server.stop(), Bun.sleep(DRAIN_MS)]);
  await server.stop(true);
  world.lanes.close();
}

async function openWorld(open: Open, onFatal: (error: Error) => void): Promise<World> {
  const { data_dir: dataDir, threads, max_pixels: maxPixels, models_dir: modelsDir, trust_list: trustList } = open;
  const [sharp, models] = await Promise.all([loadSharp(dataDir), findModels(modelsDir)]);
  if (open.adaptation !== undefined) await adapt(models, open.adaptation);
  exposeFeatures(models, open.features === true);
  sharp.cache(false); // no image is decoded twice
  sharp.concurrency(1); // images are decoded in parallel instead
  const trusted = trustList === undefined ? null : await readTrusted(trustList);
  const lanes = await openLanes({ dataDir, threads, models, runLimitMs: RUN_LIMIT_MS, onFatal });
  const limits = { maxPixels, seconds: DECODE_SECONDS };
  return { sharp, models, lanes, limits, trusted, gate: createGate(mostBytesHeld(limits)) };
}

async function adapt(models: Models, path: string) {
  try {
    await applyAdaptation(models, path);
  } catch (error) {
    throw new WorkerError("crashed", (error as Error).message);
  }
}

async function readTrusted(path: string) {
  try {
    return readTrustList(await Bun.file(path).text());
  } catch (error) {
    const reason = (error as Error).message;
    throw new WorkerError(
      "crashed",
      `detect.trust_list cannot be used: ${reason}. Name a file of certificates in PEM.`,
    );
  }
}

async function ended({ messages }: DetectorHost) {
  for await (const _ of messages);
}

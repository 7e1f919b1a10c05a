/** Demo step that runs the detector on an image drawn here. */
import { deflateSync } from "node:zlib";
import { expect } from "./walk.ts";

type Detection = {
  prediction: string;
  ensemble_score: number;
  model_results: Record<string, { score: number; status: string; error: string | null }>;
};

const SIDE = 512;
const MODELS = ["detector_v0", "detector_v1"];
const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

/** The detection API has its own key header and its own error format. */
export async function detect(url: string, key: string, signal: AbortSignal): Promise<string> {
  const response = await fetch(`${url}/api/detect`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify({ image: drawn().toString("base64"), models: MODELS }),
    signal,
  });
  const body = (await response.json()) as Detection | { error: string };
  if ("error" in body) throw new Error(body.error);
  const results = Object.entries(body.model_results);
  const failed = results.find(([, { status }]) => status !== "success");
  expect(!failed, `${failed?.[0]} failed: ${failed?.[1].error}`);
  expect(results.length === MODELS.length, `only these models answered: ${results.map(([name]) => name).join()}`);
  const each = results.map(([name, { score }]) => `${name} ${score.toFixed(2)}`).join(", ");
  return `an image computed by this program: ${body.prediction}, ${body.ensemble_score.toFixed(2)} (${each})`;
}

/** A PNG of rings over a gradient. Always the same bytes. */
export function drawn(): Buffer {
  const rows = Buffer.alloc(SIDE * (1 + 3 * SIDE)); // each row begins with its filter type; 0 = none
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const ring = Math.sin(Math.hypot(x - SIDE / 2, y - SIDE / 3) / 9);
      const at = y * (1 + 3 * SIDE) + 1 + 3 * x;
      for (const [c, slope] of [x, y, SIDE - x].entries()) rows[at + c] = 127 + 60 * ring + (60 * slope) / SIDE;
    }
  const size = Buffer.alloc(13);
  size.writeUInt32BE(SIDE, 0);
  size.writeUInt32BE(SIDE, 4);
  size.set([8, 2], 8); // 8 bits per colour, colour type RGB
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", size),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(data.length, 0);
  ends.writeUInt32BE(Bun.hash.crc32(body), 4);
  return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
}

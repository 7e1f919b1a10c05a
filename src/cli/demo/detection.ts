/** The part of the walk that asks whether a picture was generated, of one that is drawn here. */
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

/** By its own interface: a header and errors that are not those of the other routes. */
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
  expect(results.length === MODELS.length, `only ${results.map(([name]) => name).join()} answered`);
  const each = results.map(([name, { score }]) => `${name} ${score.toFixed(2)}`).join(", ");
  return `one that this program computes: ${body.prediction}, ${body.ensemble_score.toFixed(2)} (${each})`;
}

/** Rings over a slope, as a PNG. Always the same. */
export function drawn(): Buffer {
  const rows = Buffer.alloc(SIDE * (1 + 3 * SIDE)); // each begins with its filter, 0: none
  for (let y = 0; y < SIDE; y++)
    for (let x = 0; x < SIDE; x++) {
      const ring = Math.sin(Math.hypot(x - SIDE / 2, y - SIDE / 3) / 9);
      const at = y * (1 + 3 * SIDE) + 1 + 3 * x;
      for (const [c, slope] of [x, y, SIDE - x].entries()) rows[at + c] = 127 + 60 * ring + (60 * slope) / SIDE;
    }
  const size = Buffer.alloc(13);
  size.writeUInt32BE(SIDE, 0);
  size.writeUInt32BE(SIDE, 4);
  size.set([8, 2], 8); // bits of a colour, three colours
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

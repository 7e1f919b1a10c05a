/** Decodes an image for a language model: its first frame, upright, on white where it is transparent, not too large. */
import type { World } from "../world.ts";
import { bytesHeld, optionsOf, type Pixels, rawPixels, readHeader } from "./decode.ts";

/** Neither side of the result is longer than `side`. */
export async function readPixels(
  { sharp, limits, gate }: Pick<World, "sharp" | "limits" | "gate">,
  bytes: Uint8Array,
  side: number,
  signal: AbortSignal,
): Promise<Pixels> {
  const { width, height, metadata } = await readHeader(sharp, bytes, limits);
  const leave = await gate.enter(bytesHeld(metadata), signal);
  try {
    let image = sharp(bytes, optionsOf(limits, 0)).timeout({ seconds: limits.seconds });
    if ((metadata.orientation ?? 1) > 1) image = image.autoOrient();
    if (metadata.hasAlpha) image = image.flatten({ background: { r: 255, g: 255, b: 255 } });
    if (Math.max(width, height) > side) image = image.resize(side, side, { fit: "inside" });
    return await rawPixels(image.toColourspace("srgb"), "pixels");
  } finally {
    leave();
  }
}

/** Reads an answer of the detector's process. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import type { PixelImage } from "../../lib/vision/pixels.ts";
import { Refused, Scored } from "../../workers/protocol_detector.ts";

const CODES = {
  INVALID_IMAGE: "invalid_image",
  UNSUPPORTED_FORMAT: "unsupported_format",
  IMAGE_TOO_LARGE: "image_too_large",
  UNKNOWN_MODEL: "unknown_model",
} as const;

type Log = Pick<Ctx, "log">;

export type Answer = { status: number; headers: Headers; bytes: Uint8Array };

export function readScores(ctx: Log, answer: Answer): Scored {
  mustBeRead(ctx, answer);
  return checked(ctx, Scored.safeParse(jsonOf(answer)));
}

/** `side`: the maximum of both sides. */
export function readPixels(ctx: Log, answer: Answer, side: number): PixelImage {
  mustBeRead(ctx, answer);
  const { headers, bytes: pixels } = answer;
  const image = { width: Number(headers.get("x-width")), height: Number(headers.get("x-height")), pixels };
  const isWhole = image.width > 0 && Math.max(image.width, image.height) <= side;
  if (isWhole && pixels.length === image.width * image.height * 3) return image;
  return checked(ctx, { success: false, error: new Error("the pixels do not fit the size of the image") });
}

/** A rejected file is an error with the reason. */
function mustBeRead(ctx: Log, answer: Answer) {
  if (answer.status === 200) return;
  if (answer.status !== 422)
    throw new AppError("all_models_failed", "The detector failed on this file; the server's log has the details");
  const refused = checked(ctx, Refused.safeParse(jsonOf(answer)));
  throw new AppError(CODES[refused.code], refused.error);
}

function jsonOf({ bytes }: Answer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined; // which no schema accepts
  }
}

function checked<T>(ctx: Log, parsed: { success: true; data: T } | { success: false; error: Error }): T {
  if (parsed.success) return parsed.data;
  ctx.log.error("the detector gave an answer outside its protocol", { error: parsed.error });
  throw new AppError(
    "all_models_failed",
    "The detector gave an answer outside its protocol; the server's log has the details",
  );
}

/** Reads an answer of the detector's process. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { Refused, Scored } from "../../workers/protocol_detector.ts";

const CODES = {
  INVALID_IMAGE: "invalid_image",
  UNSUPPORTED_FORMAT: "unsupported_format",
  IMAGE_TOO_LARGE: "image_too_large",
  UNKNOWN_MODEL: "unknown_model",
} as const;

type Log = Pick<Ctx, "log">;

/** A rejected file is an error with the reason. */
export function readAnswer(ctx: Log, status: number, body: unknown): Scored {
  if (status === 200) return checked(ctx, Scored.safeParse(body));
  if (status !== 422)
    throw new AppError("all_models_failed", "The detector failed on this file; the server's log has the details");
  const refused = checked(ctx, Refused.safeParse(body));
  throw new AppError(CODES[refused.code], refused.error);
}

function checked<T>(ctx: Log, parsed: { success: true; data: T } | { success: false; error: Error }): T {
  if (parsed.success) return parsed.data;
  ctx.log.error("the detector gave an answer outside its protocol", { error: parsed.error });
  throw new AppError(
    "all_models_failed",
    "The detector gave an answer outside its protocol; the server's log has the details",
  );
}

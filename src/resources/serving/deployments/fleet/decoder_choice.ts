/** The decoder of a model on a card: by the setting, and by what `verk doctor --speed` measured. */
import { join } from "node:path";
import type { Ctx } from "../../../../context.ts";
import { errorText } from "../../../../lib/error_text.ts";
import { fasterDecoder, SPEEDS_FILE, Speeds } from "../../../../lib/serving/measured_speed.ts";
import { readJson } from "../../../../platform/files.ts";
import * as gpu from "../../../machines/gpu/service.ts";

export type DecoderChoice = Ctx["config"]["serving"]["decoder"];
/** `cards`: ids of the devices; the first one counts. */
type Loaded = { sha256: string | null; parallel: number; cards: readonly string[] };

/** `auto` is the faster one where both were measured with this file on such a card. */
export async function decoderFor(ctx: Ctx, { sha256, parallel, cards: [card] }: Loaded): Promise<DecoderChoice> {
  const { decoder } = ctx.config.serving;
  const name = gpu.known(ctx).find(({ id }) => id === card)?.name;
  if (decoder !== "auto" || sha256 === null || name === undefined) return decoder;
  try {
    const speeds = await readJson(join(ctx.config.data_dir, SPEEDS_FILE), Speeds);
    return (speeds && fasterDecoder(speeds, { gpu: name, sha256, parallel })) === "library" ? "library" : decoder;
  } catch (error) {
    ctx.log.warn("measured speeds are not used", { error: errorText(error) });
    return decoder; // a hint that cannot be read must not stop a load
  }
}

import type { Ctx } from "../../context.ts";
import type { JobRow } from "./table.ts";

export function startCustom(_ctx: Ctx, _job: JobRow) {}

/** One page of the items that a stored response was asked with. Pure. */
import { z } from "zod";
import { AppError } from "../../../lib/errors.ts";
import { numberText } from "../../../lib/schema.ts";
import type { ResponseRow } from "./table.ts";

export const ItemsQuery = z.object({
  limit: numberText(z.int().min(1).max(100)).default(20),
  order: z.enum(["asc", "desc"]).default("desc"),
  after: z.string().optional().describe("The id of the last item of the page before"),
});

export function inputItems({ id, input }: Pick<ResponseRow, "id" | "input">, query: z.output<typeof ItemsQuery>) {
  const { limit, order, after } = query;
  const named = input.map((item, index) => ({ id: `in_${id.replace(/^resp_/, "")}_${index}`, ...item }));
  const ordered = order === "asc" ? named : named.reverse();
  const from = after === undefined ? 0 : ordered.findIndex((item) => item.id === after) + 1;
  if (after !== undefined && from === 0)
    throw new AppError("invalid_cursor", "after: is not the id of an item of this response", { param: "after" });
  const data = ordered.slice(from, from + limit);
  return {
    object: "list" as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: from + data.length < ordered.length,
  };
}

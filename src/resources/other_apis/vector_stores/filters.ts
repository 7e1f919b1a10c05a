/** Filters of a search by the attributes of files. Pure. */
import { z } from "zod";
import { later } from "../../../lib/schema.ts";
import type { Attributes } from "./table.ts";

const MOST = 64;
const Value = z.union([z.string().max(512), z.number(), z.boolean()]);
const Comparison = z.object({
  type: z.enum(["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]),
  key: z.string().max(64),
  value: z.union([Value, z.array(z.union([z.string().max(512), z.number()])).max(MOST)]),
});
const compoundOf = <T extends z.ZodType>(filter: T) =>
  z.object({ type: z.enum(["and", "or"]), filters: z.array(filter).min(1).max(MOST) });
const Inner = z.union([Comparison, compoundOf(Comparison)]);

/** A compound in a compound is as deep as it goes. */
export const Filter = later(() => z.union([Comparison, compoundOf(Inner)]));

type Comparison = z.output<typeof Comparison>;
export type Filter = Comparison | { type: "and" | "or"; filters: Filter[] };

/** A file without the attribute passes `ne` and `nin` alone. */
export function passes(filter: Filter, attributes: Attributes): boolean {
  if ("filters" in filter) {
    const one = (inner: Filter) => passes(inner, attributes);
    return filter.type === "and" ? filter.filters.every(one) : filter.filters.some(one);
  }
  const { type, value } = filter;
  const own = Object.hasOwn(attributes, filter.key) ? attributes[filter.key] : undefined;
  const isListed = own !== undefined && Array.isArray(value) && (value as unknown[]).includes(own);
  if (type === "in") return isListed;
  if (type === "nin") return !isListed;
  if (type === "eq") return own === value;
  if (type === "ne") return own !== value;
  if (own === undefined || typeof own !== typeof value || typeof own === "boolean") return false;
  const order = own < (value as typeof own) ? -1 : own > (value as typeof own) ? 1 : 0;
  return type === "gt" ? order > 0 : type === "gte" ? order >= 0 : type === "lt" ? order < 0 : order <= 0;
}

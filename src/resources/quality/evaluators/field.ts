import { isTree } from "../../../lib/json/object.ts";

/** The value at a path such as `answer.text`. Undefined if there is none. */
export const fieldOf = (value: unknown, path: string): unknown =>
  path
    .split(".")
    .reduce<unknown>((part, key) => (isTree(part) && Object.hasOwn(part, key) ? part[key] : undefined), value);

/** A text as it is, and everything else as JSON. */
export const asText = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

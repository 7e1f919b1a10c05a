/** An object of JSON: no list, and not null. */
export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An object or a list of JSON: whatever has values inside. */
export const isTree = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

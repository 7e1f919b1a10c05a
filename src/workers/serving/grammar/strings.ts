/** Grammar rules for strings: by length, by pattern or by format. */
import { refuse, type Schema } from "./merge.ts";
import { pointerTo } from "./objects.ts";
import { patternRule, UnsupportedPattern } from "./regex.ts";
import type { Rules } from "./rules.ts";

const ENDLESS = 1_000_000; // more characters than any context holds
const MONTH_DAY =
  "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
const DATE = `[12][0-9]{3}-${MONTH_DAY}`; // the 29th of February is left out: no rule can check the year
const TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])";
const OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const LABEL = "[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?";
const HOST = `${LABEL}(\\.${LABEL}){0,3}`;

/** The lengths of the shortest and the longest text of each format, as this file writes it. */
const LENGTHS: Record<string, readonly [number, number]> = {
  date: [10, 10],
  time: [9, 21],
  "date-time": [20, 32],
  duration: [3, 7],
  uuid: [36, 36],
  email: [5, 246],
  hostname: [1, 131],
  ipv4: [7, 15],
  ipv6: [15, 39],
  uri: [8, 360],
};

const FORMATS: Record<string, string> = {
  date: DATE,
  time: TIME,
  "date-time": `${DATE}T${TIME}`,
  duration: "P([1-9][0-9]{0,3}[YMWD]|T[1-9][0-9]{0,3}[HMS])",
  uuid: "[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
  email: `[A-Za-z0-9]([A-Za-z0-9_+-]|\\.[A-Za-z0-9]){0,40}@${LABEL}(\\.${LABEL}){1,4}`,
  hostname: HOST,
  ipv4: `${OCTET}(\\.${OCTET}){3}`,
  ipv6: "[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}",
  uri: `https?://${HOST}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]{0,30}){0,5}(\\?[A-Za-z0-9._~=&-]{0,60})?`,
};

export function stringRule(schema: Schema, rules: Rules, at: string): string {
  const { pattern, format } = schema;
  const min = (schema["minLength"] ?? 0) as number;
  const most = (schema["maxLength"] ?? ENDLESS) as number;
  const max = most >= ENDLESS ? Number.POSITIVE_INFINITY : most;
  const bounded = min > 0 || max !== Number.POSITIVE_INFINITY;
  if (typeof pattern === "string") {
    if (bounded)
      throw refuse(pointerTo(at, "pattern"), "cannot be combined with a length. Express the length in the pattern");
    if (typeof format === "string")
      throw refuse(pointerTo(at, "pattern"), "cannot be combined with a format. Remove one of them");
    return byPattern(pattern, pointerTo(at, "pattern"), rules);
  }
  if (typeof format === "string") {
    const formatPattern = Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
    if (!formatPattern)
      throw refuse(
        pointerTo(at, "format"),
        `${format} is not supported. Use one of ${Object.keys(FORMATS).join(", ")}`,
      );
    const [shortest, longest] = LENGTHS[format] as readonly [number, number];
    if (min > shortest || max < longest)
      throw refuse(pointerTo(at, "format"), `cannot be combined with a length: ${format} has its own`);
    return patternRule(`^${formatPattern}$`, rules, true);
  }
  if (!bounded) return "string";
  if (min > max) throw refuse(pointerTo(at, "minLength"), "is larger than maxLength");
  return rules.define(max === 0 ? '"\\"\\""' : `"\\"" ${rules.repeat("char", min, max)} "\\""`);
}

function byPattern(pattern: string, at: string, rules: Rules): string {
  try {
    new RegExp(pattern, "u");
    return patternRule(pattern, rules);
  } catch (error) {
    if (error instanceof UnsupportedPattern || error instanceof SyntaxError)
      throw refuse(at, `this pattern is not supported: ${error.message}`);
    throw error;
  }
}

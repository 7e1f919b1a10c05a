/** Zod's messages in plain English: `Invalid input: expected array, received undefined` → `is required: send a list`. */
const NOUNS: Record<string, string> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
  undefined: "nothing",
  bigint: "a whole number",
  NaN: "a text that is no number",
  Infinity: "infinity",
  function: "a function",
  date: "a date",
  map: "a map",
  set: "a set",
  Uint8Array: "bytes",
};
const noun = (type: string) => NOUNS[type] ?? type;

const bound = (operator: string) =>
  ({ ">=": "at least", ">": "more than", "<=": "at most", "<": "less than" })[operator];

const RULES: readonly [pattern: RegExp, plain: (...groups: string[]) => string][] = [
  [/^Invalid input: expected (\w+), received undefined$/, (type) => `is required: send ${noun(type as string)}`],
  [/^Invalid input: expected int, received number$/, () => "must be a whole number"],
  [
    /^Invalid input: expected (\w+), received (\w+)$/,
    (type, got) => `must be ${noun(type as string)}, not ${noun(got as string)}`,
  ],
  [/^Invalid option: expected one of (.+)$/, (options) => `must be one of ${options?.replaceAll("|", ", ")}`],
  [
    /^Invalid discriminator value. Expected (.+)$/,
    (options) => `must be one of ${options?.replaceAll("'", '"').replaceAll(" | ", ", ")}`,
  ],
  [/^Invalid input: expected (".*")$/, (value) => `must be ${value}`],
  [
    /^Too (?:small|big): expected \w+ to have ([<>]=?)(\S+) (.+)$/,
    (op, n, unit) => `must have ${bound(op as string)} ${n} ${unit}`,
  ],
  [/^Too (?:small|big): expected \w+ to be ([<>]=?)(\S+)$/, (op, n) => `must be ${bound(op as string)} ${n}`],
  [/^Too (?:small|big): expected \w+ to have exactly (\S+) (.+)$/, (n, unit) => `must have exactly ${n} ${unit}`],
  [/^Unrecognized keys?: (.+)$/, (keys) => `unknown field ${keys}: remove it`],
  [/^Invalid input: expected never, received .+$/, () => "is not allowed here: remove it"],
  [/^Invalid input: expected (\S+)$/, (value) => `must be ${value}`],
  [/^Invalid input: more than one option matched$/, () => "fits several forms: give the fields of one of them"],
  [/^Invalid (?:input|element in .+)$/, () => "is not valid here"],
  [/^Invalid key in .+$/, () => "is a name that is not valid here"],
  [/^Invalid (?:string|number): (must .+)$/, (rule) => rule as string],
  [/^Invalid (?:base64-encoded string|base64)$/, () => "must be base64"],
  [/^Invalid (lowercase|uppercase)$/, (letters) => `must be in ${letters} letters`],
  [/^Invalid ISO (\w+)$/, (kind) => `must be a ${kind} of ISO 8601`],
  [/^Invalid (.+)$/, (kind) => `must be a valid ${kind}`],
];

export function plainIssue(message: string): string {
  for (const [pattern, plain] of RULES) {
    const match = pattern.exec(message);
    if (match) return plain(...match.slice(1));
  }
  return message;
}

/** The parts of an issue that say what is wrong inside it. */
type Nested = {
  message: string;
  code?: string | undefined;
  path?: readonly PropertyKey[];
  errors?: readonly (readonly Nested[])[];
  issues?: readonly Nested[];
  origin?: string;
};

/**
 * An issue in plain English, with the cause of a union or of a key. Every message of the validator that a person reads
 * comes from here.
 */
export function issueText(issue: Nested | undefined): string {
  if (!issue) return "is not valid";
  const [inner] = issue.issues ?? [];
  if (issue.code === "invalid_key" && inner)
    return `has the name ${JSON.stringify(issue.path?.at(-1) ?? "")}, which ${issueText(inner)}`;
  if (issue.code === "invalid_union" && issue.errors && issue.errors.length > 0) return unionText(issue.errors);
  return plainIssue(issue.message);
}

/** `must be a text or a list`; if a member has the right type, what is wrong with it. */
function unionText(members: readonly (readonly Nested[])[]): string {
  const firsts = members.flatMap(([first]) => first ?? []);
  const ofType = firsts.find(({ code, path }) => code !== "invalid_type" || (path?.length ?? 0) > 0);
  if (ofType) return issueText(ofType);
  const nouns = firsts.flatMap(({ message }) => /^must be (.+), not (.+)$/.exec(plainIssue(message))?.slice(1) ?? []);
  const types = [...new Set(nouns.filter((_, i) => i % 2 === 0))];
  return types.length === 0 ? issueText(firsts[0]) : `must be ${types.join(" or ")}, not ${nouns[1]}`;
}

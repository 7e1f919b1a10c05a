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
  [/^Unrecognized keys?: (.+)$/, (keys) => `unknown field ${keys}: remove it`],
];

export function plainIssue(message: string): string {
  for (const [pattern, plain] of RULES) {
    const match = pattern.exec(message);
    if (match) return plain(...match.slice(1));
  }
  return message;
}

/** Labels of a queue as people write them: "tone: kind, rude", "stars: 1-5", "note: text", "errors: mark wrong, rude". */
type Field = { name: string; required?: boolean } & (
  | { type: "choice" | "span"; options: string[] }
  | { type: "scale"; min: number; max: number }
  | { type: "text" }
);

export function labelsOf(lines: string): { fields: Field[]; fault: string | undefined } {
  const fields: Field[] = [];
  for (const line of lines.split("\n").filter((each) => each.trim() !== "")) {
    const [, name = "", rest = ""] = /^([^:]+):(.+)$/.exec(line.trim()) ?? [];
    if (name.trim() === "") return { fields, fault: `“${line.trim()}” has no colon after the name of the label` };
    fields.push({ name: name.trim(), ...kindOf(rest.trim()) });
  }
  return { fields, fault: undefined };
}

function kindOf(text: string) {
  const [, min, max] = /^(-?\d+)\s*[-–]\s*(-?\d+)$/.exec(text) ?? [];
  if (min !== undefined) return { type: "scale" as const, min: Number(min), max: Number(max) };
  if (text === "text") return { type: "text" as const, required: false };
  const [, marks] = /^mark\s+(.+)$/.exec(text) ?? [];
  const options = (marks ?? text)
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  return marks === undefined
    ? { type: "choice" as const, options }
    : { type: "span" as const, options, required: false };
}

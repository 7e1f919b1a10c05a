/** `/runs/:id` and `/runs/job_1` → `{ id: "job_1" }`; undefined if they do not match. */
export function match(pattern: string, address: string): Record<string, string> | undefined {
  const parts = pattern.split("/");
  const given = address.replace(/(.)\/$/, "$1").split("/");
  if (parts.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of parts.entries()) {
    const value = given[i] ?? "";
    if (part.startsWith(":") && value !== "") params[part.slice(1)] = safeDecode(value);
    else if (part !== value) return undefined;
  }
  return params;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

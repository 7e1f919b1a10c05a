/** A typed value: "0.8" is a number, "yes" and "no" are decisions, all else is a word. */
export function scoreValue(typed: string): number | boolean | string {
  const text = typed.trim();
  if (/^[-+]?(\d+\.?\d*|\.\d+)$/.test(text)) return Number(text);
  if (/^(yes|true)$/i.test(text)) return true;
  return /^(no|false)$/i.test(text) ? false : text;
}

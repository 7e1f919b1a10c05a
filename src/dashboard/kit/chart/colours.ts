/** Values of colour tokens for canvases. Each is computed once for a theme: every look-up costs the page a style pass. */
import { colour, theme } from "../../shell/theme.ts";

const known = new Map<string, string>();

/** Looks up colours of the theme now: `colours()("--c1")`. */
export function colours(): (token: string) => string {
  const name = `${theme.value} ${matchMedia("(prefers-color-scheme: dark)").matches}`;
  return (token) => {
    const key = `${name} ${token}`;
    const value = known.get(key) ?? colour(token);
    known.set(key, value);
    return value;
  };
}

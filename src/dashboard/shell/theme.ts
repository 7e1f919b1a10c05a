/** Light, dark, or as the system says. Kept in the browser's storage, as are the choices of `data/kept.ts`. */
import { signal } from "@preact/signals";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "verk.theme";

const stored = () => THEMES.find((each) => each === localStorage.getItem(KEY)) ?? "auto";
export const theme = signal<Theme>(stored());

export function applyTheme(next: Theme) {
  theme.value = next;
  localStorage.setItem(KEY, next);
  if (next === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
}

/** The value of a colour token now, for a canvas: `colour("--c1")`. */
export function colour(token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

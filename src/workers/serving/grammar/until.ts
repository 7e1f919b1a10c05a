/** A rule for any text that does not contain a given one. */
import { textClass } from "./char_sets.ts";
import { literal, type Rules } from "./rules.ts";

/**
 * Returns the rule of a text without `marker` in it. The rule follows how much of the marker the text ends with, so the
 * sampler has one reading of each text.
 */
export function until(rules: Rules, marker: string): string {
  const chars = [...marker];
  const states = chars.map(() => rules.reserve());
  chars.forEach((_, state) => {
    // the characters that continue some beginning of the marker, with the state that each leads to
    const leads = new Map<string, number>();
    for (const char of new Set(chars)) {
      const text = [...chars.slice(0, state), char];
      let length = Math.min(text.length, chars.length);
      while (length > 0 && text.slice(-length).join("") !== chars.slice(0, length).join("")) length--;
      if (length > 0) leads.set(char, length);
    }
    const others = `${textClass([...leads.keys()])} ${states[0]?.name}`;
    const moves = [...leads]
      .filter(([, to]) => to < chars.length)
      .map(([char, to]) => `${literal(char)} ${states[to]?.name}`);
    states[state]?.is(`(${[others, ...moves].join(" | ")})?`);
  });
  return states[0]?.name ?? '""';
}
